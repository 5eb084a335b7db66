// SPDX-License-Identifier: Apache-2.0
//
// The base of a slice is evaluated before its bounds; as an l-value, its location at the time
// of the write is written (P4-16, "Expression evaluation order" and "Assignment statement").

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

bit<8> change(inout bit<8> x, in bit<8> by) {
    x = x + by;
    return 4;
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
    apply {
        standard.egress_spec = 2;
        bit<8> x = 0x21;
        // 0x2 of 0x21, and x becomes 0x31.
        hdr.data.a = (bit<8>)(x[change(x, 0x10)+:4]);
        hdr.data.b = x;
        // x becomes 0x32, of which 0x3 becomes 0xf.
        x[change(x, 1)+:4] = 0xf;
        hdr.data.c = x;
        // The old value is read before the right side is evaluated: 0xf2 + 4.
        x += change(x, 1);
        hdr.data.d = x;
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
