// SPDX-License-Identifier: Apache-2.0
//
// add_entry with several parameters: a struct with a field for each, in order.

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

struct known_params_t {
    bit<8> low;
    bit<8> seen;
}

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
    action known(bit<8> low, bit<8> seen) {
        hdr.data.b = low;
        hdr.data.c = seen ++ 8w0;
    }
    action learn() {
        hdr.data.b = 0xee;
        add_entry("known", (known_params_t) { low = hdr.data.c[7:0], seen = hdr.data.a }, (ExpireTimeProfileId_t) 0);
    }
    table flows {
        key = { hdr.data.a: exact @name("a"); }
        actions = { @tableonly known; @defaultonly learn; }
        const default_action = learn();
        add_on_miss = true;
        size = 16;
    }

    apply {
        flows.apply();
        send_to_port((PortId_t) 2);
    }
}

control deparse(packet_out packet, in headers_t hdr, in metadata_t meta, in pna_main_output_metadata_t ostd) {
    apply {
        packet.emit(hdr.data);
    }
}

PNA_NIC(parse(), pre(), main_control(), deparse()) main;
