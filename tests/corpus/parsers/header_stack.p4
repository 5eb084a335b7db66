// SPDX-License-Identifier: Apache-2.0
//
// Stacks in a parser: .next fills them in order, .last is the newest; extraction into
// a full stack is StackOutOfBounds and keeps the elements (section "Header stacks").

#include <core.p4>
#include <v1model.p4>

header item_h {
    bit<1> more;
    bit<7> v;
}
header report_h {
    bit<8> code;
}

struct headers_t {
    report_h report;
    item_h[3] items;
}

struct metadata_t { }

parser parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.items.next);
        transition select(hdr.items.last.more) {
            1: start;
            default: accept;
        }
    }
}

control verify_checksums(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control ingress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        hdr.report.setValid();
        hdr.report.code = 0;
        if (standard.parser_error == error.StackOutOfBounds) {
            hdr.report.code = 3;
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
        packet.emit(hdr.items);
    }
}

V1Switch(parse(), verify_checksums(), ingress(), egress(), compute_checksums(), deparse()) main;
