// SPDX-License-Identifier: Apache-2.0
//
// An enum with an underlying type may be a header field: it is extracted as its bits, compared
// by name, and a value without a member keeps its bits (section "Enumeration types").

#include <core.p4>
#include <v1model.p4>

enum bit<8> colour_t {
    red   = 1,
    green = 2
}
header data_h {
    colour_t colour;
    bit<8>   mark;
    bit<8>   x;
    bit<8>   y;
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
        bit<8> old = hdr.data.mark;
        hdr.data.mark = 0;
        if (hdr.data.colour == colour_t.red) {
            hdr.data.colour = colour_t.green;
            hdr.data.mark = 0x11;
        }
        hdr.data.x = old;
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
