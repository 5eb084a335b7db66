// SPDX-License-Identifier: Apache-2.0
//
// A direct counter counts each hit of an entry once, also if the action never calls count or
// calls it twice; misses aren't counted; an entry that is deleted and reinserted starts at 0.

#include <core.p4>
#include <v1model.p4>

header data_h {
    bit<8>  a;
    bit<8>  b;
    bit<16> c;
}

struct headers_t {
    data_h data;
}

struct metadata_t { }

parser parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.data);
        transition accept;
    }
}

control verify_checksums(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control ingress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    direct_counter(CounterType.packets_and_bytes) hits;
    action plain() { }
    action twice() {
        hits.count();
        hits.count();
    }
    table t {
        key = { hdr.data.a: exact @name("a"); }
        actions = { plain; twice; NoAction; }
        default_action = NoAction();
        counters = hits;
    }

    apply {
        t.apply();
        standard.egress_spec = 2;
    }
}

control egress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply { }
}

control compute_checksums(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control deparse(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.data);
    }
}

V1Switch(parse(), verify_checksums(), ingress(), egress(), compute_checksums(), deparse()) main;
