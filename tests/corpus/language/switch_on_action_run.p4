// SPDX-License-Identifier: Apache-2.0
//
// switch on action_run: the label is the action that ran, including
// the default action; without a matching label nothing runs.

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
    action one() { }
    action two() { }
    action three() { }
    action other() { }
    table t {
        key = { hdr.data.a: exact @name("a"); }
        actions = { one; two; three; other; }
        default_action = other();
    }

    apply {
        switch (t.apply().action_run) {
            one: { hdr.data.b = 0x11; }
            two: { hdr.data.b = 0x22; }
            other: { hdr.data.b = 0xdd; }
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
