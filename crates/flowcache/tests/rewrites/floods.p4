// SPDX-License-Identifier: Apache-2.0
//
// An overlay whose tenant's number is in one of two places, for whoever must know whose packet it is before the program has run.

#include <core.p4>
#include <pna.p4>

header first_h { bit<8> kind; }
header shim_h { bit<32> unused; bit<8> kind; }
header overlay_h { bit<24> vni; bit<32> destination; bit<32> source; bit<8> ttl; }
struct headers_t { first_h first; shim_h shim; overlay_h overlay; }
struct metadata_t { bit<8> unused; }

parser parse(packet_in packet, out headers_t hdr, inout metadata_t meta, in pna_main_parser_input_metadata_t istd) {
    state start {
        packet.extract(hdr.first);
        transition select(hdr.first.kind) { 1: overlay; 2: shim; default: accept; }
    }
    state shim {
        packet.extract(hdr.shim);
        transition select(hdr.shim.kind) { 1: overlay; default: accept; }
    }
    state overlay { packet.extract(hdr.overlay); transition accept; }
}

control pre(in headers_t hdr, inout metadata_t meta, in pna_pre_input_metadata_t istd, inout pna_pre_output_metadata_t ostd) {
    apply { }
}

control forward(inout headers_t hdr, inout metadata_t meta, in pna_main_input_metadata_t istd, inout pna_main_output_metadata_t ostd) {
    action leave(bit<32> port) {
        hdr.overlay.ttl = hdr.overlay.ttl - 1;
        send_to_port((PortId_t) (PortIdUint_t) (InterfaceIdUint_t) port);
    }
    action refuse() { drop_packet(); }
    table tenants {
        key = { hdr.overlay.vni: exact; }
        actions = { leave; refuse; }
        default_action = refuse();
        size = 64;
    }
    apply {
        // Who sends to whom is part of the flow.
        if (hdr.overlay.isValid() && hdr.overlay.source != hdr.overlay.destination) {
            tenants.apply();
        } else {
            drop_packet();
        }
    }
}

control deparse(packet_out packet, in headers_t hdr, in metadata_t meta, in pna_main_output_metadata_t ostd) {
    apply {
        packet.emit(hdr.first);
        packet.emit(hdr.shim);
        packet.emit(hdr.overlay);
    }
}

PNA_NIC(parse(), pre(), forward(), deparse()) main;
