// SPDX-License-Identifier: Apache-2.0
//
// Results are copied out in the order of the call's arguments; the last one to a
// location wins (P4-16, "Calling convention: call by copy in/copy out", step 6).

#include <core.p4>
#include <v1model.p4>

header data_h {
    bit<8> a;
    bit<8> b;
    bit<8> c;
    bit<8> d;
}

struct headers_t {
    data_h data;
}

struct metadata_t { }

void set(out bit<8> x, out bit<8> y) {
    x = 0xaa;
    y = 0xbb;
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
    action set_both(out bit<8> x, out bit<8> y) {
        x = 0xaa;
        y = 0xbb;
    }

    apply {
        standard.egress_spec = 2;
        set(hdr.data.a, hdr.data.a);
        set(y = hdr.data.b, x = hdr.data.b);
        set_both(y = hdr.data.c, x = hdr.data.c);
        set(x = hdr.data.d, y = hdr.data.d);
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
        packet.emit(hdr);
    }
}

V1Switch(parse(), verify_checksums(), ingress(), egress(), compute_checksums(), deparse()) main;
