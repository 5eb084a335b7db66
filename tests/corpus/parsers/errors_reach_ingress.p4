// SPDX-License-Identifier: Apache-2.0
//
// A parser error ends parsing, keeps the headers extracted before it, and is in parser_error; v1model continues
// in ingress with it. NoMatch: no case of a select; PacketTooShort; the program's own error by verify.

#include <core.p4>
#include <v1model.p4>

error {
    NotWelcome
}
header byte_h {
    bit<8> v;
}
header word_h {
    bit<32> v;
}
header report_h {
    bit<8> tag;
    bit<8> code;
}

struct headers_t {
    report_h report;
    byte_h first;
    word_h second;
}

struct metadata_t { }

parser parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.first);
        transition select(hdr.first.v) {
            2: more;
            3: more;
            4: more;
        }
    }
    state more {
        packet.extract(hdr.second);
        verify(hdr.first.v != 3, error.NotWelcome);
        transition accept;
    }
}

control verify_checksums(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control ingress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        hdr.report.setValid();
        hdr.report.tag = 0x0e;
        hdr.report.code = 0xff;
        if (standard.parser_error == error.NoError) {
            hdr.report.code = 0;
        } else if (standard.parser_error == error.NoMatch) {
            hdr.report.code = 1;
        } else if (standard.parser_error == error.PacketTooShort) {
            hdr.report.code = 2;
        } else if (standard.parser_error == error.NotWelcome) {
            hdr.report.code = 3;
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
        packet.emit(hdr.first);
        packet.emit(hdr.second);
    }
}

V1Switch(parse(), verify_checksums(), ingress(), egress(), compute_checksums(), deparse()) main;
