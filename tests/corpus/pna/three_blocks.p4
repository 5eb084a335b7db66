// SPDX-License-Identifier: Apache-2.0
//
// Today's PNA has three blocks (<bmv2/pna.p4>): no pre control, `recirculated` in
// place of direction and pass number, SelectByDirection by a bool, and a deparser
// that may change headers. A recirculated packet starts with the deparser's output.

#include <core.p4>
#include <bmv2/pna.p4>

header data_h {
    bit<8>  a;
    bit<8>  b;
    bit<16> c;
}

struct headers_t {
    data_h data;
    data_h more;
}

struct metadata_t {
    bool parser_saw_it_again;
}

parser parse(packet_in packet, out headers_t hdr, inout metadata_t meta, in pna_main_parser_input_metadata_t istd) {
    state start {
        meta.parser_saw_it_again = istd.recirculated;
        packet.extract(hdr.data);
        transition accept;
    }
}

control main_control(inout headers_t hdr, inout metadata_t meta, in pna_main_input_metadata_t istd,
                     inout pna_main_output_metadata_t ostd) {
    apply {
        if (hdr.data.a == 1 && !istd.recirculated) {
            recirculate();
        }
        if (istd.recirculated && meta.parser_saw_it_again) {
            hdr.data.b = hdr.data.b + 0x10;
        }
        hdr.data.c = hdr.data.c + SelectByDirection(is_net_port(istd.input_port), 16w1, 16w0x100);
        send_to_port((PortId_t) 2);
    }
}

control deparse(packet_out packet, inout headers_t hdr, in metadata_t meta, in pna_main_output_metadata_t ostd) {
    apply {
        hdr.data.b = hdr.data.b + 1;
        packet.emit(hdr.data);
        if (hdr.data.a == 2) {
            hdr.more = { 0xaa, 0xbb, hdr.data.c };
        }
        packet.emit(hdr.more);
    }
}

PNA_NIC(parse(), main_control(), deparse()) main;
