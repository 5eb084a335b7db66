// SPDX-License-Identifier: Apache-2.0
//
// && and || evaluate their right operand only if the left one doesn't decide; ?:
// evaluates only the selected operand (section "Expression evaluation order").

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

bool touch(inout bit<8> seen, in bit<8> mark) {
    seen = seen | mark;
    return true;
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
        bit<8> seen = 0;
        bool set = hdr.data.a != 0;
        bool x = set && touch(seen, 1);
        bool y = set || touch(seen, 2);
        bool z = set ? touch(seen, 4) : touch(seen, 8);
        if (x || y || z) {
            hdr.data.b = seen;
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
