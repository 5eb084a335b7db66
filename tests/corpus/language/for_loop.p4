// SPDX-License-Identifier: Apache-2.0
//
// for with three clauses: the condition is checked before each iteration;
// break skips the update; continue runs it (section "For statement").

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
        bit<8> sum = 0;
        bit<8> i;
        for (i = 0; i < hdr.data.a; i = i + 1) {
            if (i == 2) {
                continue;
            }
            if (i == 6) {
                break;
            }
            sum = sum + i;
        }
        hdr.data.b = sum;
        hdr.data.c = (bit<16>) i;
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
