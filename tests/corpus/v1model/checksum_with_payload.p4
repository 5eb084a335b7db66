// SPDX-License-Identifier: Apache-2.0
//
// The forms with payload cover the data and then all unparsed
// bytes; an odd last byte is padded with 0 at its end (RFC 1071).

#include <core.p4>
#include <v1model.p4>

header data_h {
    bit<16> x;
    bit<16> y;
    bit<16> sum;
}
header report_h {
    bit<8> error_seen;
}

struct headers_t {
    data_h data;
    report_h report;
}

struct metadata_t { }

parser parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.data);
        transition accept;
    }
}

control verify_checksums(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum_with_payload(true, { hdr.data.x, hdr.data.y }, hdr.data.sum, HashAlgorithm.csum16);
    }
}

control ingress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        hdr.report.setValid();
        hdr.report.error_seen = (bit<8>) standard.checksum_error;
        hdr.data.x = hdr.data.x + 1;
        standard.egress_spec = 2;
    }
}

control egress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply { }
}

control compute_checksums(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum_with_payload(true, { hdr.data.x, hdr.data.y }, hdr.data.sum, HashAlgorithm.csum16);
    }
}

control deparse(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.data);
        packet.emit(hdr.report);
    }
}

V1Switch(parse(), verify_checksums(), ingress(), egress(), compute_checksums(), deparse()) main;
