// SPDX-License-Identifier: Apache-2.0
//
// push_front moves elements towards the end, makes the first ones invalid and loses
// the last ones; pop_front moves them to the front and makes the last ones invalid.

#include <core.p4>
#include <v1model.p4>

header byte_h {
    bit<8> v;
}

struct headers_t {
    byte_h op;
    byte_h[3] items;
}

struct metadata_t { }

parser parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.op);
        packet.extract(hdr.items.next);
        packet.extract(hdr.items.next);
        packet.extract(hdr.items.next);
        transition accept;
    }
}

control verify_checksums(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control ingress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        if (hdr.op.v == 1) {
            hdr.items.push_front(1);
            hdr.items[0].setValid();
            hdr.items[0].v = 0xff;
        } else if (hdr.op.v == 2) {
            hdr.items.pop_front(2);
        } else {
            hdr.items.push_front(1);
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
        packet.emit(hdr.op);
        packet.emit(hdr.items);
    }
}

V1Switch(parse(), verify_checksums(), ingress(), egress(), compute_checksums(), deparse()) main;
