// SPDX-License-Identifier: Apache-2.0
//
// An exit in an action that another one calls, in a control that is applied:
// all of them copy out before it takes effect (P4-16, "Exit statement").

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

control inner(inout bit<8> x, inout bit<8> y) {
    action leave(inout bit<8> z) {
        z = z + 1;
        exit;
    }
    action twice(inout bit<8> z) {
        z = z + 0x10;
        leave(z);
        z = 0;
    }
    apply {
        y = 0x22;
        twice(x);
        y = 0x33;
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
    inner() sub;

    apply {
        standard.egress_spec = 2;
        // Both parameters are copies of a: the copy of x is written first, that of y last.
        sub.apply(hdr.data.a, hdr.data.a);
        hdr.data.b = 0xff;
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
