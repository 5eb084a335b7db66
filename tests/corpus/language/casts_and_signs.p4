// SPDX-License-Identifier: Apache-2.0
//
// Casts: int<W> to a wider int extends the sign, bit to a wider bit adds zeros, to a narrower one
// drops the upper bits; comparison uses the type's sign; bool casts to bit<1> (section "Casts").

#include <core.p4>
#include <v1model.p4>

header data_h {
    bit<8>  a;
    bit<8>  b;
    bit<16> sum;
    bit<8>  flags;
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
    apply {
        int<16> wide = (int<16>) (int<8>) hdr.data.a;
        hdr.data.sum = (bit<16>) wide + (bit<16>) hdr.data.b;
        hdr.data.flags = 4w0 ++ (bit<1>) ((int<8>) hdr.data.a < 0) ++ (bit<1>) (hdr.data.a < 0x10)
            ++ (bit<1>) ((int<8>) hdr.data.a < (int<8>) hdr.data.b) ++ (bit<1>) (hdr.data.a == hdr.data.b);
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
