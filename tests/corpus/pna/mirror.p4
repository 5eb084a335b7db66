// SPDX-License-Identifier: Apache-2.0
//
// mirror_packet makes a copy for each slot, whatever the packet's verdict; a second call for a slot
// replaces the first; a missing session makes none. The copy is the packet after the main block's changes.

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
            mirror_packet((MirrorSlotId_t) 0, (MirrorSessionId_t) 5);
        } else if (hdr.data.a == 2) {
            mirror_packet((MirrorSlotId_t) 0, (MirrorSessionId_t) 5);
            mirror_packet((MirrorSlotId_t) 1, (MirrorSessionId_t) 6);
        } else if (hdr.data.a == 3) {
            mirror_packet((MirrorSlotId_t) 2, (MirrorSessionId_t) 5);
            mirror_packet((MirrorSlotId_t) 2, (MirrorSessionId_t) 6);
        } else if (hdr.data.a == 4) {
            mirror_packet((MirrorSlotId_t) 3, (MirrorSessionId_t) 5);
            drop_packet();
        } else {
            mirror_packet((MirrorSlotId_t) 0, (MirrorSessionId_t) 77);
        }
        hdr.data.b = 0x99;
    }
}

control deparse(packet_out packet, in headers_t hdr, in metadata_t meta, in pna_main_output_metadata_t ostd) {
    apply {
        packet.emit(hdr.data);
    }
}

PNA_NIC(parse(), pre(), main_control(), deparse()) main;
