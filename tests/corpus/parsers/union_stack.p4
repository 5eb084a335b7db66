// SPDX-License-Identifier: Apache-2.0
//
// A stack of unions: next names a union, and extraction of its member advances the stack; push
// and pop move whole unions; a member with a run-time index is invalidated with its whole union.

#include <core.p4>
#include <v1model.p4>

header data_h {
    bit<8> a;
    bit<8> b;
    bit<8> c;
    bit<8> d;
}

header one_h {
    bit<8> v;
}

header two_h {
    bit<8> v;
    bit<8> w;
}

header_union one_or_two {
    one_h one;
    one_h other;
    two_h two;
}

struct headers_t {
    data_h data;
    one_or_two[3] stack;
}

struct metadata_t { }

parser parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.data);
        transition select(hdr.data.a) {
            0 : accept;
            default : element;
        }
    }
    state element {
        transition select(packet.lookahead<bit<8>>()) {
            0x01 : one;
            0x02 : two;
            default : accept;
        }
    }
    state one {
        packet.extract(hdr.stack.next.one);
        transition element;
    }
    state two {
        packet.extract(hdr.stack.next.two);
        transition element;
    }
}

control verify_checksums(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control ingress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        standard.egress_spec = 2;
        hdr.data.d = standard.parser_error == error.StackOutOfBounds ? 8w1 : 0;
        if (hdr.data.b == 1) {
            hdr.stack.push_front(1);
            hdr.stack[0].other = { 0xcc };
        } else if (hdr.data.b == 2) {
            hdr.stack.pop_front(1);
        } else if (hdr.data.b == 3) {
            hdr.stack[hdr.data.c].one.setInvalid();
        } else if (hdr.data.b == 4) {
            hdr.stack[hdr.data.c].other = { 0xdd };
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
