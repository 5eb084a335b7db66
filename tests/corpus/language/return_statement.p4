// SPDX-License-Identifier: Apache-2.0
//
// return ends only the enclosing action, function or control.

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

bit<16> five() {
    for (bit<16> i = 0; i < 10; i = i + 1) {
        if (i == 5) {
            return i;
        }
    }
    return 99;
}
control second(inout bit<8> b) {
    apply {
        b = 3;
        if (b == 3) {
            return;
        }
        b = 4;
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
    second() s;
    action first() {
        hdr.data.a = 1;
        return;
        hdr.data.a = 2;
    }

    apply {
        first();
        s.apply(hdr.data.b);
        hdr.data.c = five();
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
