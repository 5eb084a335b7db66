// SPDX-License-Identifier: Apache-2.0
//
// Overlay whose tenant number is in one of several places, for code that needs the tenant early.
// The headers before it give rewrites several sizes. Packets are counted by tenant and in total.

#include <core.p4>
#include <pna.p4>

header first_h { bit<8> kind; }
header shim_h { bit<32> unused; bit<8> kind; }
header overlay_h { bit<24> vni; bit<32> destination; bit<32> source; bit<8> ttl; }
header pad_h { bit<512> whatever; }
struct headers_t { first_h first; shim_h shim; pad_h pad1; pad_h pad2; pad_h pad3; overlay_h overlay; }
struct metadata_t { bit<8> unused; }

parser parse(packet_in packet, out headers_t hdr, inout metadata_t meta, in pna_main_parser_input_metadata_t istd) {
    state start {
        packet.extract(hdr.first);
        transition select(hdr.first.kind) { 1: overlay; 2: shim; 3: pad1; 4: pad2; 5: pad3; default: accept; }
    }
    state shim {
        packet.extract(hdr.shim);
        transition select(hdr.shim.kind) { 1: overlay; default: accept; }
    }
    state pad3 { packet.extract(hdr.pad3); transition pad2; }
    state pad2 { packet.extract(hdr.pad2); transition pad1; }
    state pad1 { packet.extract(hdr.pad1); transition overlay; }
    state overlay { packet.extract(hdr.overlay); transition accept; }
}

control pre(in headers_t hdr, inout metadata_t meta, in pna_pre_input_metadata_t istd, inout pna_pre_output_metadata_t ostd) {
    apply { }
}

control forward(inout headers_t hdr, inout metadata_t meta, in pna_main_input_metadata_t istd, inout pna_main_output_metadata_t ostd) {
    DirectCounter<bit<64>>(PNA_CounterType_t.PACKETS_AND_BYTES) left;
    Counter<bit<64>, bit<8>>(4, PNA_CounterType_t.PACKETS_AND_BYTES) all;
    action leave(bit<32> port) {
        left.count();
        all.count(1);
        hdr.overlay.ttl = hdr.overlay.ttl - 1;
        send_to_port((PortId_t) (PortIdUint_t) (InterfaceIdUint_t) port);
    }
    action refuse() { drop_packet(); }
    table tenants {
        key = { hdr.overlay.vni: exact; }
        actions = { leave; refuse; }
        default_action = refuse();
        pna_direct_counter = left;
        size = 64;
    }
    apply {
        // Source and destination are part of the flow.
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
        packet.emit(hdr.pad3);
        packet.emit(hdr.pad2);
        packet.emit(hdr.pad1);
        packet.emit(hdr.overlay);
    }
}

PNA_NIC(parse(), pre(), forward(), deparse()) main;
