// SPDX-License-Identifier: Apache-2.0
//
// A packet that the parser rejects enters the main control with the error and the extracted headers.

#include <core.p4>
#include <pna.p4>

header byte_h {
    bit<8> v;
}
header word_h {
    bit<32> v;
}

struct headers_t {
    byte_h report;
    byte_h first;
    word_h second;
}

struct metadata_t { }

parser parse(packet_in packet, out headers_t hdr, inout metadata_t meta, in pna_main_parser_input_metadata_t istd) {
    state start {
        packet.extract(hdr.first);
        packet.extract(hdr.second);
        transition accept;
    }
}

control pre(in headers_t hdr, inout metadata_t meta, in pna_pre_input_metadata_t istd,
            inout pna_pre_output_metadata_t ostd) {
    apply { }
}

control main_control(inout headers_t hdr, inout metadata_t meta, in pna_main_input_metadata_t istd,
                     inout pna_main_output_metadata_t ostd) {
    apply {
        hdr.report.setValid();
        hdr.report.v = 0;
        if (istd.parser_error == error.PacketTooShort) {
            hdr.report.v = 1;
        }
        send_to_port((PortId_t) 2);
    }
}

control deparse(packet_out packet, in headers_t hdr, in metadata_t meta, in pna_main_output_metadata_t ostd) {
    apply {
        packet.emit(hdr.report);
        packet.emit(hdr.first);
        packet.emit(hdr.second);
    }
}

PNA_NIC(parse(), pre(), main_control(), deparse()) main;
