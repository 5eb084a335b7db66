// SPDX-License-Identifier: Apache-2.0
//
// A parameter is a copy: it keeps written values, also if its argument is a field of an invalid header, to
// which the copy-out then writes nothing (P4-16, "Calling convention" and "Reading uninitialized values").

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
    data_h none;
}

struct metadata_t { }

void set(inout bit<8> x, out bit<8> seen) {
    x = 7;
    seen = x;
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
    action set_too(inout bit<8> x) {
        x = 9;
        hdr.data.c = x;
    }

    apply {
        standard.egress_spec = 2;
        set(hdr.none.a, hdr.data.a);
        hdr.data.b = hdr.none.a;
        set_too(hdr.none.a);
        hdr.data.d = hdr.none.a;
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
