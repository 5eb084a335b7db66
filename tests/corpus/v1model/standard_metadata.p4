// SPDX-License-Identifier: Apache-2.0
//
// Metadata in ingress and egress: ingress_port, packet_length in bytes, egress_port, instance_type 0.

#include <core.p4>
#include <v1model.p4>

header data_h {
    bit<8> ingress_port;
    bit<8> length;
    bit<8> egress_port;
    bit<8> instance;
    bit<8> gone;
    bit<8> gone_2;
    bit<8> gone_3;
}
header out_h {
    bit<8> ingress_port;
    bit<8> length;
    bit<8> egress_port;
    bit<8> instance;
}

struct headers_t {
    data_h data;
    out_h out_hdr;
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
        hdr.out_hdr.setValid();
        hdr.out_hdr.ingress_port = (bit<8>) standard.ingress_port;
        hdr.out_hdr.length = (bit<8>) standard.packet_length;
        standard.egress_spec = 2;
    }
}

control egress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        hdr.out_hdr.egress_port = (bit<8>) standard.egress_port;
        hdr.out_hdr.instance = (bit<8>) standard.instance_type;
    }
}

control compute_checksums(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control deparse(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.out_hdr);
    }
}

V1Switch(parse(), verify_checksums(), ingress(), egress(), compute_checksums(), deparse()) main;
