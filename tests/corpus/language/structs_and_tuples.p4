// SPDX-License-Identifier: Apache-2.0
//
// Structs from positional and named initialisers, with ... for defaults; tuples by index; comparison of
// structs field by field (sections "Structure-valued expressions", "Operations on tuples", "Default values").

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

struct three_t {
    bit<8> x;
    bit<8> y;
    bit<8> z;
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
        three_t s = { x = hdr.data.a, y = hdr.data.a + 1, ... };
        three_t u = { 3, 4, 0 };
        tuple<bit<8>, bit<8>> t = { s.x + s.y, s.z };
        hdr.data.b = t[0] + t[1];
        hdr.data.c = (s == u) ? 16w1 : 16w0;
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
