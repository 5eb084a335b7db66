// SPDX-License-Identifier: Apache-2.0
//
// resubmit: the packet restarts as received, with instance_type 6, and preserves the
// fields of the list; it has precedence over a drop or an output port that ingress chose.

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

struct metadata_t {
    @field_list(1)
    bit<8> x;
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
        standard.egress_spec = 2;
        if (standard.instance_type == 0 && hdr.data.a == 1) {
            hdr.data.b = 1;
            meta.x = 7;
            meta.y = 9;
            resubmit_preserving_field_list(1);
            mark_to_drop(standard);
        } else {
            hdr.data.b = hdr.data.b + meta.x + meta.y;
            hdr.data.c = (bit<16>) standard.instance_type;
        }
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
