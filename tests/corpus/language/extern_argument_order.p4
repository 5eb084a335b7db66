// SPDX-License-Identifier: Apache-2.0
//
// Arguments of externs are evaluated before the call, from left to right: a value that the
// call has read does not change with a later argument, and a digest receiver has effects, too.

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

struct message_t {
    bit<8> a;
    bit<8> b;
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
    register<bit<8>>(8) cells;

    apply {
        standard.egress_spec = 2;
        bit<8> i = 1;
        // Cell 2 gets 3.
        cells.write((bit<32>)increment(i), increment(i));
        // The l-value is evaluated before the index.
        cells.read(hdr.data.a, (bit<32>)(increment(i) - 2));
        // i is 5 for the receiver; the message has 6 and 7.
        digest<message_t>((bit<32>)increment(i), { increment(i), increment(i) });
        hdr.data.b = i;
        random(hdr.data.c, increment(i), increment(i) - 1);
        hdr.data.d = i;
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
