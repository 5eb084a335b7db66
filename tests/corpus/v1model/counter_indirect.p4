// SPDX-License-Identifier: Apache-2.0
//
// Indirect counters count packets and bytes at an index; an index outside the array counts
// nothing. Bytes are those of the received packet, although ingress makes it longer.

#include <core.p4>
#include <v1model.p4>

header data_h {
    bit<8>  a;
    bit<8>  b;
    bit<16> c;
}
header extra_h {
    bit<8> v;
}

struct headers_t {
    data_h data;
    extra_h extra;
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
    counter(4, CounterType.packets_and_bytes) both;
    counter(4, CounterType.packets) only_packets;
    counter(4, CounterType.bytes) only_bytes;

    apply {
        hdr.extra.setValid();
        hdr.extra.v = 0xee;
        both.count((bit<32>) hdr.data.a);
        only_packets.count((bit<32>) hdr.data.a);
        only_bytes.count((bit<32>) hdr.data.a);
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
        packet.emit(hdr.extra);
    }
}

V1Switch(parse(), verify_checksums(), ingress(), egress(), compute_checksums(), deparse()) main;
