// SPDX-License-Identifier: Apache-2.0
//
// digest sends the control plane the values of its data at the call; one message
// for each call; the packet is unaffected; without a call no message is sent.

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

struct learn_t {
    bit<8>  b;
    bit<16> c;
}
struct none_yet_t {
    bit<8> b;
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
        if (hdr.data.a == 0xff) {
            digest<learn_t>(1, { hdr.data.b, hdr.data.c });
            hdr.data.b = 0x99;
        }
        if (hdr.data.a == 0xfe) {
            digest<none_yet_t>(1, { hdr.data.b });
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
