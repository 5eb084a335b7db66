// SPDX-License-Identifier: Apache-2.0
//
// Hash over the nine characters 123456789: CRC32 cbf43926, CRC16 bb3d (published check values); TARGET_DEFAULT
// is CRC32; a narrower result is the lower bits; get_hash(base, data, max) = base + hash mod max.

#include <core.p4>
#include <pna.p4>

header data_h {
    bit<72> v;
}
header result_h {
    bit<32> crc32;
    bit<32> target_default;
    bit<16> crc16;
    bit<16> low;
    bit<16> bounded;
}

struct headers_t {
    data_h data;
    result_h result;
}

struct metadata_t { }

parser parse(packet_in packet, out headers_t hdr, inout metadata_t meta, in pna_main_parser_input_metadata_t istd) {
    state start {
        packet.extract(hdr.data);
        transition accept;
    }
}

control pre(in headers_t hdr, inout metadata_t meta, in pna_pre_input_metadata_t istd,
            inout pna_pre_output_metadata_t ostd) {
    apply { }
}

control main_control(inout headers_t hdr, inout metadata_t meta, in pna_main_input_metadata_t istd,
                     inout pna_main_output_metadata_t ostd) {
    Hash<bit<32>>(PNA_HashAlgorithm_t.CRC32) crc32;
    Hash<bit<32>>(PNA_HashAlgorithm_t.TARGET_DEFAULT) target_default;
    Hash<bit<16>>(PNA_HashAlgorithm_t.CRC16) crc16;
    Hash<bit<16>>(PNA_HashAlgorithm_t.CRC32) low;

    apply {
        hdr.result.setValid();
        hdr.result.crc32 = crc32.get_hash({ hdr.data.v });
        hdr.result.target_default = target_default.get_hash({ hdr.data.v });
        hdr.result.crc16 = crc16.get_hash({ hdr.data.v });
        hdr.result.low = low.get_hash({ hdr.data.v });
        hdr.result.bounded = low.get_hash(16w1000, { hdr.data.v }, 16w100);
        send_to_port((PortId_t) 2);
    }
}

control deparse(packet_out packet, in headers_t hdr, in metadata_t meta, in pna_main_output_metadata_t ostd) {
    apply {
        packet.emit(hdr.result);
    }
}

PNA_NIC(parse(), pre(), main_control(), deparse()) main;
