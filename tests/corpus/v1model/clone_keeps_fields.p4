// SPDX-License-Identifier: Apache-2.0
//
// clone_preserving_field_list preserves the metadata of that list with their values at the
// end of ingress; all other metadata are 0 in the copy. The last of two calls decides.

#include <core.p4>
#include <v1model.p4>

header data_h {
    bit<8> a;
    bit<8> x;
    bit<8> y;
    bit<8> instance;
}

struct headers_t {
    data_h data;
}

struct metadata_t {
    @field_list(1)
    bit<8> x;
    @field_list(2)
    bit<8> y;
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
        clone_preserving_field_list(CloneType.I2E, 5, 2);
        clone_preserving_field_list(CloneType.I2E, 6, 1);
        meta.x = 7;
        meta.y = 9;
        standard.egress_spec = 2;
    }
}

control egress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        hdr.data.x = meta.x;
        hdr.data.y = meta.y;
        hdr.data.instance = (bit<8>) standard.instance_type;
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
