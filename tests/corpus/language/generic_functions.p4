// SPDX-License-Identifier: Apache-2.0
//
// Functions and structs with type parameters: arguments are inferred, or given (section "Type inference").

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

struct pair_t<T> {
    T first;
    T second;
}
pair_t<T> swapped<T>(in pair_t<T> p) {
    return { p.second, p.first };
}
T choose<T>(in bool condition, in T yes, in T no) {
    if (condition) {
        return yes;
    }
    return no;
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
        pair_t<bit<8>> p = { hdr.data.a, hdr.data.b };
        p = swapped(p);
        hdr.data.a = p.first;
        hdr.data.b = p.second;
        hdr.data.c = choose<bit<16>>((bit<16>) hdr.data.b < hdr.data.c, hdr.data.c, (bit<16>) hdr.data.b);
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
