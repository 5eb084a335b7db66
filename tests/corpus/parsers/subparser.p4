// SPDX-License-Identifier: Apache-2.0
//
// A parser that calls another one: the callee continues at the caller's cursor; its accept
// returns to the caller, its error ends both (section "Parsers", "Invoking subparsers").

#include <core.p4>
#include <v1model.p4>

header byte_h {
    bit<8> v;
}
header word_h {
    bit<16> v;
}
header report_h {
    bit<8> code;
}

struct headers_t {
    report_h report;
    byte_h first;
    word_h second;
    byte_h third;
}

struct metadata_t { }

parser word(packet_in packet, out word_h w) {
    state start {
        packet.extract(w);
        transition accept;
    }
}

parser parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    word() w;
    state start {
        packet.extract(hdr.first);
        w.apply(packet, hdr.second);
        packet.extract(hdr.third);
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
        if (standard.parser_error == error.PacketTooShort) {
            hdr.report.code = 2;
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
        packet.emit(hdr.third);
    }
}

V1Switch(parse(), verify_checksums(), ingress(), egress(), compute_checksums(), deparse()) main;
