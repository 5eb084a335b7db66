// Objects of a PNA program that a controller can write: tests/shell.
#include <core.p4>
#include <pna.p4>

@controller_header("packet_in")
header packet_in_t { bit<32> port; }
@controller_header("packet_out")
header packet_out_t { bit<32> port; }
header ethernet_t { bit<48> destination; bit<48> source; bit<16> kind; }

struct headers { packet_in_t packet_in; packet_out_t packet_out; ethernet_t ethernet; }
struct metadata { }
struct learned_t { bit<48> source; bit<16> kind; }

parser Parse(packet_in packet, out headers h, inout metadata m, in pna_main_parser_input_metadata_t i) {
    state start { packet.extract(h.ethernet); transition accept; }
}

control Before(in headers h, inout metadata m, in pna_pre_input_metadata_t i, inout pna_pre_output_metadata_t o) {
    apply { }
}

control Decide(inout headers h, inout metadata m, in pna_main_input_metadata_t i, inout pna_main_output_metadata_t o) {
    Counter<bit<64>, bit<8>>(8, PNA_CounterType_t.PACKETS_AND_BYTES) by_kind;
    DirectCounter<bit<64>>(PNA_CounterType_t.PACKETS) host_hits;
    Meter<bit<8>>(4, PNA_MeterType_t.BYTES) rates;
    Register<bit<32>, bit<8>>(4, 7) words;
    ActionProfile(4) shared;
    ActionSelector(PNA_HashAlgorithm_t.CRC32, 16, 16) ways;

    action drop() { drop_packet(); }
    action send(PortId_t port) { send_to_port(port); }

    table hosts {
        key = { h.ethernet.destination: exact; }
        actions = { send; drop; }
        default_action = drop();
        pna_direct_counter = host_hits;
        pna_idle_timeout = PNA_IdleTimeout_t.NOTIFY_CONTROL;
        size = 16;
    }
    table profiled {
        key = { h.ethernet.source: exact; }
        actions = { send; drop; }
        default_action = drop();
        pna_implementation = shared;
    }
    table spread {
        key = { h.ethernet.source: exact; h.ethernet.destination: selector; }
        actions = { send; drop; }
        default_action = drop();
        pna_implementation = ways;
    }
    apply {
        by_kind.count(h.ethernet.kind[7:0]);
        if (rates.execute(0) == PNA_MeterColor_t.RED) { words.write(0, 1); }
        hosts.apply();
        profiled.apply();
        spread.apply();
    }
}

control Deparse(packet_out packet, in headers h, in metadata m, in pna_main_output_metadata_t o) {
    Digest<learned_t>() learned;
    apply {
        learned.pack({ h.ethernet.source, h.ethernet.kind });
        packet.emit(h.ethernet);
    }
}

PNA_NIC(Parse(), Before(), Decide(), Deparse()) main;
