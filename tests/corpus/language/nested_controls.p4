// SPDX-License-Identifier: Apache-2.0
//
// Controls with constructor parameters: each instance has its own parameter and its own tables, also if both
// are of one type; an instance may be applied twice (sections "Parameterization" and "Direct invocation").

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

control adder(inout bit<8> x)(bit<8> amount) {
    action add() {
        x = x + amount;
    }
    action double() {
        x = x << 1;
    }
    table t {
        key = { x: exact @name("x"); }
        actions = { add; double; }
        default_action = add();
    }
    apply {
        t.apply();
    }
}

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
    adder(2) by_two;
    adder(10) by_ten;

    apply {
        by_two.apply(hdr.data.a);
        by_ten.apply(hdr.data.a);
        bit<8> again = hdr.data.a;
        by_two.apply(again);
        hdr.data.b = again;
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
