// SPDX-License-Identifier: Apache-2.0
//
// for ... in over a range (inclusive at both ends) and over a header stack,
// in order; the range is evaluated once, before the first iteration.

#include <core.p4>
#include <v1model.p4>

header item_h {
    bit<8> v;
}
header result_h {
    bit<8>  sum;
    bit<8>  pad;
}
header digits_h {
    bit<16> digits;
}

struct headers_t {
    item_h[3] items;
    result_h result;
    digits_h extra;
}

struct metadata_t { }

parser parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.items.next);
        packet.extract(hdr.items.next);
        packet.extract(hdr.items.next);
        packet.extract(hdr.result);
        transition accept;
    }
}

control verify_checksums(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control ingress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        bit<8> sum = 0;
        for (bit<8> i in 8w1 .. hdr.items[0].v) {
            sum = sum + i;
            hdr.items[0].v = 9;
        }
        bit<16> digits = 0;
        for (item_h item in hdr.items) {
            digits = digits * 10 + (bit<16>) item.v;
        }
        hdr.result.sum = sum;
        hdr.extra.setValid();
        hdr.extra.digits = digits;
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
        packet.emit(hdr.items);
        packet.emit(hdr.result);
        packet.emit(hdr.extra);
    }
}

V1Switch(parse(), verify_checksums(), ingress(), egress(), compute_checksums(), deparse()) main;
