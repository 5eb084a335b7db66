// SPDX-License-Identifier: Apache-2.0
//
// hash over the nine characters 123456789, with published CRC check values: CRC-32 (IEEE 802.3)
// cbf43926, CRC-16/ARC bb3d. csum16 and xor16 work on 16-bit words, the last one padded with 0 at its
// end. identity over 16 bits is those bits. result = base + hash mod max; with max = 0 it is base.

#include <core.p4>
#include <v1model.p4>

header data_h {
    bit<72> v;
}
header result_h {
    bit<32> crc32;
    bit<16> crc16;
    bit<16> csum16;
    bit<16> xor16;
    bit<16> identity;
    bit<16> bounded;
    bit<16> none;
}

struct headers_t {
    data_h data;
    result_h result;
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
        hdr.result.setValid();
        hash(hdr.result.crc32, HashAlgorithm.crc32, 32w0, { hdr.data.v }, 64w0x100000000);
        hash(hdr.result.crc16, HashAlgorithm.crc16, 16w0, { hdr.data.v }, 32w0x10000);
        hash(hdr.result.csum16, HashAlgorithm.csum16, 16w0, { hdr.data.v }, 32w0x10000);
        hash(hdr.result.xor16, HashAlgorithm.xor16, 16w0, { hdr.data.v }, 32w0x10000);
        hash(hdr.result.identity, HashAlgorithm.identity, 16w0, { hdr.data.v[71:56] }, 32w0x10000);
        hash(hdr.result.bounded, HashAlgorithm.crc32, 16w1000, { hdr.data.v }, 16w100);
        hash(hdr.result.none, HashAlgorithm.crc32, 16w0x77, { hdr.data.v }, 16w0);
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
        packet.emit(hdr.result);
    }
}

V1Switch(parse(), verify_checksums(), ingress(), egress(), compute_checksums(), deparse()) main;
