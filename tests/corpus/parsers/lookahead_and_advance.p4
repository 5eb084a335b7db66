// SPDX-License-Identifier: Apache-2.0
//
// lookahead reads without moving; advance moves without reading, and
// skipped bytes aren't emitted again; length is that of the whole packet.

#include <core.p4>
#include <v1model.p4>

header byte_h {
    bit<8> v;
}
header report_h {
    bit<8> len;
    bit<8> peeked;
}

struct headers_t {
    byte_h data;
    report_h report;
}

struct metadata_t {
    bit<8> peeked;
    bit<8> len;
}

parser parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        meta.peeked = packet.lookahead<bit<8>>();
        meta.len = (bit<8>) packet.length();
        packet.advance((bit<32>) meta.peeked << 3);
        packet.extract(hdr.data);
        transition accept;
    }
}

control verify_checksums(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control ingress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        hdr.report.setValid();
        hdr.report.len = meta.len;
        hdr.report.peeked = meta.peeked;
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
        packet.emit(hdr.report);
    }
}

V1Switch(parse(), verify_checksums(), ingress(), egress(), compute_checksums(), deparse()) main;
