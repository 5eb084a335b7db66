// SPDX-License-Identifier: Apache-2.0
//
// Register: starts at its initial value, or at 0; outside the array reads give 0 and writes are lost.

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
    Register<bit<8>, bit<8>>(4) from_0;
    Register<bit<16>, bit<8>>(4, 100) from_100;

    apply {
        bit<8> x = from_0.read(hdr.data.a) + 1;
        from_0.write(hdr.data.a, x);
        hdr.data.b = x;
        hdr.data.c = from_100.read(hdr.data.a);
        from_100.write(hdr.data.a, hdr.data.c + 1);
        send_to_port((PortId_t) 2);
    }
}

control deparse(packet_out packet, in headers_t hdr, in metadata_t meta, in pna_main_output_metadata_t ostd) {
    apply {
        packet.emit(hdr.data);
    }
}

PNA_NIC(parse(), pre(), main_control(), deparse()) main;
