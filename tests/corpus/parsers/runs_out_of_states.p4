// SPDX-License-Identifier: Apache-2.0
//
// A loop of states that neither extracts nor ends: the engine's limit on states ends it
// (error.ParserTimeout), the packet is dropped with that name, and the next one is parsed normally.

#include <core.p4>
#include <v1model.p4>

header byte_h {
    bit<8> v;
}

struct headers_t {
    byte_h first;
}

struct metadata_t { }

parser parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.first);
        transition select(hdr.first.v) {
            0 : accept;
            1 : spin;
            default : forth;
        }
    }
    state spin {
        transition spin;
    }
    state forth {
        hdr.first.v = hdr.first.v + 1;
        transition back;
    }
    state back {
        hdr.first.v = hdr.first.v - 1;
        transition forth;
    }
}

control verify_checksums(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control ingress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
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
        packet.emit(hdr);
    }
}

V1Switch(parse(), verify_checksums(), ingress(), egress(), compute_checksums(), deparse()) main;
