// SPDX-License-Identifier: Apache-2.0
//
// RFC 2698, color-blind: a packet of size B is red if Tp < B; else yellow if Tc < B, and Tp -= B;
// else green, and both decrease by B. The buckets start full (Tp = peak burst, Tc = committed
// burst) and refill at the peak and the committed rate up to their bursts. Here: bytes; committed
// Here: B = 1 packet; committed 1 packet/s, burst 1; peak 2 packets/s, burst 2.

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
    meter(16, MeterType.packets) m;

    apply {
        bit<2> colour;
        m.execute_meter<bit<2>>((bit<32>) hdr.data.a, colour);
        hdr.data.b = (bit<8>) colour;
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
