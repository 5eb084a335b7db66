// SPDX-License-Identifier: Apache-2.0
//
// A key can apply another table; keys are evaluated from left to right before the lookup, and an exit in one
// of them leaves the table unapplied (P4-16, "Exit statement" and "Match-action unit execution semantics").

#include <core.p4>
#include <v1model.p4>

header data_h {
    bit<8> a;
    bit<8> b;
    bit<8> c;
    bit<8> d;
}

struct headers_t {
    data_h data;
}

struct metadata_t { }

bit<8> increment(inout bit<8> x) {
    x = x + 1;
    return x;
}

parser parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.data);
        transition accept;
    }
}

control verify_checksums(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control ingress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    action leave() {
        hdr.data.d = 0xee;
        exit;
    }

    table inner {
        key = {
            hdr.data.a : exact;
        }
        actions = {
            NoAction;
            leave;
        }
        const entries = {
            1 : NoAction();
            2 : leave();
        }
        const default_action = NoAction;
    }

    action set(bit<8> c) {
        hdr.data.c = c;
    }

    table outer {
        key = {
            increment(hdr.data.b) : exact @name("first");
            inner.apply().hit : exact @name("second");
            increment(hdr.data.b) : exact @name("third");
        }
        actions = {
            set;
        }
        const entries = {
            (1, true, 2) : set(0x12);
            (1, false, 2) : set(0x34);
        }
        const default_action = set(0xff);
    }

    apply {
        standard.egress_spec = 2;
        outer.apply();
        hdr.data.a = 0xaa;
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
