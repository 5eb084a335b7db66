// SPDX-License-Identifier: Apache-2.0
//
// recirculate: the deparsed packet restarts, with instance_type 4 in ingress and its ingress
// port, and preserves the fields of the list. In egress it is an ordinary unicast packet again,
// instance_type 0 (as in bmv2). A packet that recirculates endlessly is finally dropped.

#include <core.p4>
#include <v1model.p4>

header data_h {
    bit<8> a;
    bit<8> b;
    bit<8> x;
    bit<4> instance_in_ingress;
    bit<4> instance_in_egress;
}

struct headers_t {
    data_h data;
}

struct metadata_t {
    @field_list(3)
    bit<8> x;
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
        hdr.data.instance_in_ingress = (bit<4>) standard.instance_type;
        if (standard.ingress_port == 7) {
            standard.egress_spec = 2;
        }
    }
}

control egress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        hdr.data.b = hdr.data.b + 1;
        meta.x = meta.x + 5;
        hdr.data.x = meta.x;
        hdr.data.instance_in_egress = (bit<4>) standard.instance_type;
        if (hdr.data.b < hdr.data.a) {
            recirculate_preserving_field_list(3);
        }
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
