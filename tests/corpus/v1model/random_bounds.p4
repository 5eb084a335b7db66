// SPDX-License-Identifier: Apache-2.0
//
// random gives a value within its bounds, both of which occur; lo = hi gives that value; lo > hi gives lo.

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
        bit<8> r;
        bit<16> seen = 0;
        hdr.data.b = 0;
        for (bit<8> i = 0; i < 64; i = i + 1) {
            random(r, 8w3, 8w5);
            if (r == 3) {
                seen = seen | 4;
            } else if (r == 4) {
                seen = seen | 2;
            } else if (r == 5) {
                seen = seen | 1;
            } else {
                hdr.data.b = 1;
            }
        }
        hdr.data.c = seen;
        random(r, 8w7, 8w7);
        hdr.data.a = r;
        random(r, 8w9, 8w2);
        if (r != 9) {
            hdr.data.b = 2;
        }
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
