// Shows the program and the entries that handled a packet: it leaves with the program's number and a mark of each of two
// tables. A packet that saw half of a write batch has two different marks. Built with PROGRAM and, for the second form, WIDER.
#include <core.p4>
#include <v1model.p4>

#ifndef PROGRAM
#define PROGRAM 1
#endif

const bit<9> CPU_PORT = 510;

@controller_header("packet_in")
header packet_in_t { bit<9> ingress_port; bit<7> zero; }
@controller_header("packet_out")
header packet_out_t { bit<9> egress_port; bit<7> zero; }
header ethernet_t { bit<48> destination; bit<48> source; bit<16> kind; }
header marks_t { bit<32> number; bit<16> first; bit<16> second; bit<8> program; }

struct headers { packet_in_t packet_in; packet_out_t packet_out; ethernet_t ethernet; marks_t marks; }
struct metadata { }
struct learned_t { bit<48> source; bit<9> port; }

parser Parse(packet_in packet, out headers h, inout metadata m, inout standard_metadata_t s) {
    state start {
        transition select(s.ingress_port) { CPU_PORT: from_controller; default: ethernet; }
    }
    state from_controller { packet.extract(h.packet_out); transition ethernet; }
    state ethernet {
        packet.extract(h.ethernet);
        transition select(h.ethernet.kind) { 0x88b5: marks; default: accept; }
    }
    state marks { packet.extract(h.marks); transition accept; }
}

control Check(inout headers h, inout metadata m) { apply { } }
control Compute(inout headers h, inout metadata m) { apply { } }

control Decide(inout headers h, inout metadata m, inout standard_metadata_t s) {
    counter(16, CounterType.packets_and_bytes) by_port;
    direct_counter(CounterType.packets) first_hits;
    action drop() { mark_to_drop(s); }
    action out_of(bit<9> port) { s.egress_spec = port; }
    action first_mark(bit<16> mark) { h.marks.first = mark; }
#ifdef WIDER
    action second_mark(bit<16> mark, bit<8> more) { h.marks.second = mark; }
#else
    action second_mark(bit<16> mark) { h.marks.second = mark; }
#endif
    table first {
        key = { h.ethernet.kind: exact; }
        actions = { first_mark; NoAction; }
        counters = first_hits;
    }
    table second {
        key = { h.ethernet.kind: exact; }
        actions = { second_mark; NoAction; }
    }
    table forward {
        key = { h.ethernet.destination: exact; }
        actions = { out_of; drop; }
        default_action = drop();
        size = 20000000;
    }
    apply {
        by_port.count((bit<32>) s.ingress_port);
        if (h.packet_out.isValid()) {
            s.egress_spec = h.packet_out.egress_port;
            h.packet_out.setInvalid();
        } else if (h.ethernet.kind == 0x88cc) {
            h.packet_in.setValid();
            h.packet_in.ingress_port = s.ingress_port;
            h.packet_in.zero = 0;
            s.egress_spec = CPU_PORT;
        } else {
            if (h.ethernet.kind == 0x88cd) {
                digest<learned_t>(1, { h.ethernet.source, s.ingress_port });
            }
            first.apply();
            second.apply();
            h.marks.program = PROGRAM;
            forward.apply();
        }
    }
}

control Leave(inout headers h, inout metadata m, inout standard_metadata_t s) { apply { } }

control Deparse(packet_out packet, in headers h) {
    apply { packet.emit(h.packet_in); packet.emit(h.packet_out); packet.emit(h.ethernet); packet.emit(h.marks); }
}

V1Switch(Parse(), Check(), Decide(), Leave(), Compute(), Deparse()) main;
