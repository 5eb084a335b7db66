// SPDX-License-Identifier: Apache-2.0
//
// A shift by the width or more gives 0, or -1 for a right shift of a negative
// int; >> of an int extends the sign, of a bit not (section "Shift operations").

#include <core.p4>
#include <v1model.p4>

header data_h {
    bit<8> x;
    bit<8> by;
    bit<8> left;
    bit<8> right;
    int<8> right_signed;
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
    apply {
        hdr.data.left = hdr.data.x << hdr.data.by;
        hdr.data.right = hdr.data.x >> hdr.data.by;
        hdr.data.right_signed = ((int<8>) hdr.data.x) >> hdr.data.by;
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
