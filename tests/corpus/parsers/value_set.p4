// SPDX-License-Identifier: Apache-2.0
//
// A parser value set: members come from the control plane; a value in the set takes its case.

#include <core.p4>
#include <v1model.p4>

header byte_h {
    bit<8> v;
}

struct headers_t {
    byte_h first;
    byte_h mark;
}

struct metadata_t {
    bit<8> mark;
}

parser parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    value_set<bit<8>>(4) known;
    state start {
        packet.extract(hdr.first);
        packet.extract(hdr.mark);
        transition select(hdr.first.v) {
            known: one;
            default: two;
        }
    }
    state one { meta.mark = 1; transition accept; }
    state two { meta.mark = 2; transition accept; }
}

control verify_checksums(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control ingress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        hdr.mark.v = meta.mark;
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
        packet.emit(hdr.first);
        packet.emit(hdr.mark);
    }
}

V1Switch(parse(), verify_checksums(), ingress(), egress(), compute_checksums(), deparse()) main;
