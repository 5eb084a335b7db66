// SPDX-License-Identifier: Apache-2.0
//
// Copy-in, copy-out (P4-16 1.2.5, section "Calling convention"): arguments are copied in from left
// to right at the start of a call and copied out from left to right at its end. So within a call,
// inout parameters are independent even if they have the same argument, and the last copy-out wins.

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

bit<8> f(inout bit<8> p, inout bit<8> q) {
    p = p + 1;
    q = q + 10;
    return p;
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
        bit<8> seen = f(hdr.data.a, hdr.data.a);
        hdr.data.b = seen;
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
