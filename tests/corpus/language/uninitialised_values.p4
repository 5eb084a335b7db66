// SPDX-License-Identifier: Apache-2.0
//
// Terrace's own choice where the specification leaves values undefined: variables, out parameters and
// fields of invalid headers read as 0, and a write to a field of an invalid header has no effect.

#include <core.p4>
#include <v1model.p4>

header data_h {
    bit<8> a;
    bit<8> b;
    bit<8> keep;
    bit<8> d;
}
header ghost_h {
    bit<8> v;
}

struct headers_t {
    data_h data;
    ghost_h ghost;
}

struct metadata_t { }

void leave(out bit<8> x) {
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
        bit<8> v;
        hdr.data.a = v;
        leave(hdr.data.b);
        hdr.ghost.v = 0xee;
        hdr.data.d = hdr.ghost.v;
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
        packet.emit(hdr.ghost);
    }
}

V1Switch(parse(), verify_checksums(), ingress(), egress(), compute_checksums(), deparse()) main;
