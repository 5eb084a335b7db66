// SPDX-License-Identifier: Apache-2.0
//
// A miss whose default action calls add_entry adds an entry with the missed key; the packet itself has still
// missed; later packets hit the entry, and the control plane sees it. A full table adds no more and reports it.

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
    action known(bit<16> value) {
        hdr.data.b = 2;
        hdr.data.c = value;
    }
    action learn() {
        bool added = add_entry(action_name = "known", action_params = hdr.data.c + 5,
                               expire_time_profile_id = (ExpireTimeProfileId_t) 0);
        if (added) {
            hdr.data.b = 1;
        }
    }
    table flows {
        key = { hdr.data.a: exact @name("a"); }
        actions = { @tableonly known; @defaultonly learn; }
        const default_action = learn();
        add_on_miss = true;
        size = 2;
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
