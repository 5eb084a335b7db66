// SPDX-License-Identifier: Apache-2.0
//
// Evaluation order and out parameters: arguments are evaluated from left to right before the call,
// including l-values, so an index that the call itself changes has its value from before the call.

#include <core.p4>
#include <v1model.p4>

header data_h {
    bit<8> a;
}
header rest_h {
    bit<8> index;
    bit<8> unused;
}

struct headers_t {
    data_h[2] stack;
    rest_h rest;
}

struct metadata_t { }

void set(inout bit<8> index, out bit<8> value) {
    index = 1;
    value = 0xaa;
}

parser parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.stack.next);
        packet.extract(hdr.stack.next);
        packet.extract(hdr.rest);
        transition accept;
    }
}

control verify_checksums(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control ingress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        bit<8> i = 0;
        set(i, hdr.stack[i].a);
        hdr.rest.index = i;
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
        packet.emit(hdr.stack);
        packet.emit(hdr.rest);
    }
}

V1Switch(parse(), verify_checksums(), ingress(), egress(), compute_checksums(), deparse()) main;
