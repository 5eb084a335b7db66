// SPDX-License-Identifier: Apache-2.0
//
// extract with a size for a varbit field; HeaderTooShort if it
// exceeds the field; the header is emitted with its actual bits.

#include <core.p4>
#include <v1model.p4>

header options_h {
    bit<8>     len;
    varbit<32> options;
}
header report_h {
    bit<8> code;
}

struct headers_t {
    report_h report;
    options_h opts;
}

struct metadata_t { }

parser parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.opts, (bit<32>) packet.lookahead<bit<8>>() << 3);
        transition accept;
    }
}

control verify_checksums(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control ingress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        hdr.report.setValid();
        hdr.report.code = 0;
        if (standard.parser_error == error.HeaderTooShort) {
            hdr.report.code = 4;
        } else if (standard.parser_error == error.PacketTooShort) {
            hdr.report.code = 1;
        } else if (standard.parser_error != error.NoError) {
            hdr.report.code = 0xff;
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
        packet.emit(hdr.report);
        packet.emit(hdr.opts);
    }
}

V1Switch(parse(), verify_checksums(), ingress(), egress(), compute_checksums(), deparse()) main;
