// SPDX-License-Identifier: Apache-2.0
//
// Checksum adds up data over several calls: CRC32 of 1234, then 56789 is that of 123456789; clear restarts it.

#include <core.p4>
#include <pna.p4>

header data_h {
    bit<32> first;
    bit<40> second;
}
header result_h {
    bit<32> x;
    bit<32> y;
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
    Checksum<bit<32>>(PNA_HashAlgorithm_t.CRC32) ck;

    apply {
        hdr.result.setValid();
        ck.update(hdr.data.first);
        ck.update(hdr.data.second);
        hdr.result.x = ck.get();
        ck.update(hdr.data.first);
        ck.clear();
        ck.update({ hdr.data.first, hdr.data.second });
        hdr.result.y = ck.get();
        send_to_port((PortId_t) 2);
    }
}

control deparse(packet_out packet, in headers_t hdr, in metadata_t meta, in pna_main_output_metadata_t ostd) {
    apply {
        packet.emit(hdr.result);
    }
}

PNA_NIC(parse(), pre(), main_control(), deparse()) main;
