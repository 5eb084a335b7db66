// SPDX-License-Identifier: Apache-2.0
//
// truncate: limits the bytes of the deparsed packet that
// leave; the last call decides; a shorter packet is unchanged.

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
    apply {
        send_to_port((PortId_t) 2);
        if (hdr.data.a == 1) {
            truncate(6);
        } else if (hdr.data.a == 2) {
            truncate(2);
        } else if (hdr.data.a == 3) {
            truncate(0);
        } else if (hdr.data.a == 4) {
            truncate(100);
        } else if (hdr.data.a == 5) {
            truncate(3);
            truncate(5);
        } else if (hdr.data.a == 6) {
            truncate(5);
            send_to_port((PortId_t) (PortIdUint_t) (InterfaceIdUint_t) PNA_PORT_CPU);
        } else if (hdr.data.a == 7) {
            truncate(5);
            drop_packet();
        } else if (hdr.data.a == 8) {
            truncate((bit<32>) hdr.data.b);
        }
        hdr.data.c = 0xffff;
    }
}

control deparse(packet_out packet, in headers_t hdr, in metadata_t meta, in pna_main_output_metadata_t ostd) {
    apply {
        packet.emit(hdr.data);
    }
}

PNA_NIC(parse(), pre(), main_control(), deparse()) main;
