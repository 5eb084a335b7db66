// SPDX-License-Identifier: Apache-2.0
//
// exit ends all running blocks (the action, the table's control and its caller), but parameters
// are still copied out, and the next block of the architecture runs (section "Exit statement").

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

control inner(inout bit<8> a, inout bit<8> b, inout standard_metadata_t standard) {
    action stop() {
        a = 7;
        standard.egress_spec = 2;
        exit;
        a = 8;
    }
    action proceed() {
        standard.egress_spec = 2;
    }
    table t {
        key = { a: exact; }
        actions = { stop; proceed; }
        const default_action = proceed();
        const entries = { 0: stop(); }
    }
    apply {
        t.apply();
        b = 2;
    }
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
    inner() i;

    apply {
        i.apply(hdr.data.a, hdr.data.b, standard);
        hdr.data.b = hdr.data.b + 1;
    }
}

control egress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        hdr.data.c = hdr.data.c + 0x100;
    }
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
