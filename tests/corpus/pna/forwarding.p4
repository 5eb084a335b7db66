// SPDX-License-Identifier: Apache-2.0
//
// send_to_port and drop_packet: the last call decides; neither ends the control;
// without either the packet is dropped; a packet to PNA_PORT_CPU goes to the CPU.

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
        if (hdr.data.a == 1) {
            send_to_port((PortId_t) 2);
        } else if (hdr.data.a == 2) {
            drop_packet();
        } else if (hdr.data.a == 3) {
            drop_packet();
            send_to_port((PortId_t) 3);
        } else if (hdr.data.a == 4) {
            send_to_port((PortId_t) 3);
            drop_packet();
        } else if (hdr.data.a == 6) {
            send_to_port((PortId_t) (PortIdUint_t) (InterfaceIdUint_t) PNA_PORT_CPU);
        }
        hdr.data.b = 1;
    }
}

control deparse(packet_out packet, in headers_t hdr, in metadata_t meta, in pna_main_output_metadata_t ostd) {
    apply {
        packet.emit(hdr.data);
    }
}

PNA_NIC(parse(), pre(), main_control(), deparse()) main;
