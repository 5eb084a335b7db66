// SPDX-License-Identifier: Apache-2.0
//
// An exit while an argument is evaluated: the call does not occur, the results of the enclosing
// calls are copied out, and the assignment does not happen (P4-16, "Exit statement").

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

bit<8> set(inout bit<8> x, in bool hit, in bit<8> y) {
    x = 0x77;
    return y;
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
        exit;
    }

    table t {
        key = {
            hdr.data.a : exact;
        }
        actions = {
            leave;
            NoAction;
        }
        const entries = {
            1 : leave();
        }
        const default_action = NoAction;
    }

    apply {
        standard.egress_spec = 2;
        hdr.data.b = set(hdr.data.c, t.apply().hit, increment(hdr.data.d));
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
