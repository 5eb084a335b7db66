// SPDX-License-Identifier: Apache-2.0
//
// Actions with parameters of both kinds: those with a direction are bound where the table lists
// the action and evaluated when it runs; those without come from the entry (section "Actions").

#include <core.p4>
#include <v1model.p4>

header data_h {
    bit<8>  a;
    bit<8>  b;
    bit<16> c;
}

struct headers_t {
    data_h data;
}

struct metadata_t { }

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
    action store(in bit<8> low, out bit<16> target, bit<8> value) {
        target = value ++ low;
    }
    table t {
        key = { hdr.data.a: exact @name("a"); }
        actions = { store(hdr.data.b, hdr.data.c); NoAction; }
        default_action = NoAction();
    }

    apply {
        hdr.data.b = 5;
        if (!t.apply().hit) {
            store(hdr.data.b, hdr.data.c, 0x99);
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
        packet.emit(hdr.data);
    }
}

V1Switch(parse(), verify_checksums(), ingress(), egress(), compute_checksums(), deparse()) main;
