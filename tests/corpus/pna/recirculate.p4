// SPDX-License-Identifier: Apache-2.0
//
// recirculate: the deparsed packet enters the main block again, with the pass number incremented and
// the same input port; user metadata are reset. After seven recirculations the packet is dropped.

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
        hdr.data.b = (bit<8>) (PassNumberUint_t) istd.pass;
        hdr.data.c = hdr.data.c + (bit<16>) (PortIdUint_t) istd.input_port;
        if (hdr.data.b < hdr.data.a) {
            recirculate();
        }
        send_to_port((PortId_t) 2);
    }
}

control deparse(packet_out packet, in headers_t hdr, in metadata_t meta, in pna_main_output_metadata_t ostd) {
    apply {
        packet.emit(hdr.data);
    }
}

PNA_NIC(parse(), pre(), main_control(), deparse()) main;
