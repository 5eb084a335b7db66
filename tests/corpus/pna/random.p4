// SPDX-License-Identifier: Apache-2.0
//
// Random gives values within its bounds, both of which occur.

#include <core.p4>
#include <pna.p4>

header data_h {
    bit<8>  a;
    bit<8>  b;
    bit<16> c;
}

struct headers_t {
    data_h data;
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
    Random<bit<8>>(3, 5) die;

    apply {
        bit<8> r;
        bit<16> seen = 0;
        for (bit<8> i = 0; i < 64; i = i + 1) {
            r = die.read();
            if (r == 3) {
                seen = seen | 4;
            } else if (r == 4) {
                seen = seen | 2;
            } else if (r == 5) {
                seen = seen | 1;
            } else {
                hdr.data.b = 1;
            }
        }
        hdr.data.c = seen;
        send_to_port((PortId_t) 2);
    }
}

control deparse(packet_out packet, in headers_t hdr, in metadata_t meta, in pna_main_output_metadata_t ostd) {
    apply {
        packet.emit(hdr.data);
    }
}

PNA_NIC(parse(), pre(), main_control(), deparse()) main;
