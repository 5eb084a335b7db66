// Small program for a service: tables, a digest, packets of the controller.
#include <core.p4>
#include <v1model.p4>

@controller_header("packet_in")
header packet_in_t { bit<9> ingress_port; bit<7> pad; }
@controller_header("packet_out")
header packet_out_t { bit<9> egress_port; bit<7> pad; }
header ethernet_t { bit<48> dst; bit<48> src; bit<16> type_; }
struct headers_t { packet_out_t sent; ethernet_t ethernet; }
struct meta_t { bit<16> key; }
struct learned_t { bit<48> src; }

parser p(packet_in b, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start { b.extract(h.ethernet); transition accept; }
}
control verify_(inout headers_t h, inout meta_t m) { apply {} }
control compute(inout headers_t h, inout meta_t m) { apply {} }
control ingress(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    counter(8, CounterType.packets) hits;
    action drop() { mark_to_drop(s); }
    action forward(bit<9> port) { s.egress_spec = port; }
    table types {
        key = { h.ethernet.type_: exact; }
        actions = { forward; drop; }
        default_action = drop();
        size = 100000;
    }
    table hosts {
        key = { h.ethernet.dst: exact; }
        actions = { forward; drop; }
        default_action = drop();
        support_timeout = true;
        size = 4;
    }
    apply {
        types.apply();
        hosts.apply();
        hits.count(1);
        digest<learned_t>(1, {h.ethernet.src});
    }
}
control egress(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { apply {} }
control deparser(packet_out b, in headers_t h) { apply { b.emit(h.ethernet); } }
V1Switch(p(), verify_(), ingress(), egress(), compute(), deparser()) main;
