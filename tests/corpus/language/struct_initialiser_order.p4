// SPDX-License-Identifier: Apache-2.0
//
// The fields of an initialiser are evaluated in its own order, not in that of the declaration;
// also within a header, a call and another initialiser (P4-16, "Expression evaluation order").

#include <core.p4>
#include <v1model.p4>

header data_h {
    bit<8> a;
    bit<8> b;
    bit<8> c;
    bit<8> d;
}

struct pair_t {
    bit<8> p;
    bit<8> q;
}

struct nested_t {
    pair_t first;
    pair_t second;
}

struct headers_t {
    data_h data;
    data_h made;
    data_h more;
}

struct metadata_t { }

bit<8> increment(inout bit<8> x) {
    x = x + 1;
    return x;
}

bit<8> difference(in pair_t pair) {
    return pair.p - pair.q;
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
        bit<8> i = 4;
        pair_t pair = { q = increment(i), p = increment(i) };
        hdr.data.a = pair.p;
        hdr.data.b = pair.q;
        hdr.data.c = difference({ q = increment(i), p = increment(i) });
        hdr.made = { d = increment(i), c = increment(i), b = increment(i), a = increment(i) };
        nested_t nested = { second = { q = increment(i), p = increment(i) }, first = { p = increment(i), q = increment(i) } };
        hdr.more = { nested.first.p, nested.first.q, nested.second.p, nested.second.q };
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
