// SPDX-License-Identifier: Apache-2.0
//
// A parser without a path to accept or reject ends only by an error: at the packet's
// end, or at a full stack. Extracted headers stay, and ingress sees the error.

#include <core.p4>
#include <v1model.p4>

header byte_h {
    bit<8> v;
}

header mark_h {
    bit<8> v;
}

struct headers_t {
    byte_h[3] stack;
    mark_h mark;
}

struct metadata_t { }

parser parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.stack.next);
        transition start;
    }
}

control verify_checksums(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control ingress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        standard.egress_spec = 2;
        hdr.mark.setValid();
        if (standard.parser_error == error.StackOutOfBounds) {
            hdr.mark.v = 0xaa;
        } else if (standard.parser_error == error.PacketTooShort) {
            hdr.mark.v = 0xbb;
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
        packet.emit(hdr);
    }
}

V1Switch(parse(), verify_checksums(), ingress(), egress(), compute_checksums(), deparse()) main;
