// SPDX-License-Identifier: Apache-2.0
//
// |+| and |-| saturate at the ends of the type's range: 0 and 255 for bit<8>,
// -128 and 127 for int<8>; + and - wrap around (section "Arithmetic operations").

#include <core.p4>
#include <v1model.p4>

header data_h {
    bit<8> x;
    bit<8> y;
    bit<8> add_s;
    bit<8> sub_s;
    bit<8> add;
    bit<8> sub;
    int<8> add_si;
    int<8> sub_si;
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
        hdr.data.add_s = hdr.data.x |+| hdr.data.y;
        hdr.data.sub_s = hdr.data.x |-| hdr.data.y;
        hdr.data.add = hdr.data.x + hdr.data.y;
        hdr.data.sub = hdr.data.x - hdr.data.y;
        int<8> x = (int<8>) hdr.data.x;
        int<8> y = (int<8>) hdr.data.y;
        hdr.data.add_si = x |+| y;
        hdr.data.sub_si = x |-| y;
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
