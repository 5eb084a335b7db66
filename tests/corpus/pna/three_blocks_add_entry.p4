// SPDX-License-Identifier: Apache-2.0
//
// With three blocks, add_entry and add_entry_if return ADD_ENTRY_SUCCESS (0),
// or ADD_ENTRY_NOT_DONE (1) if the condition is false or the table is full.

#include <core.p4>
#include <bmv2/pna.p4>

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
    bit<16> value;
}

parser parse(packet_in packet, out headers_t hdr, inout metadata_t meta, in pna_main_parser_input_metadata_t istd) {
    state start {
        packet.extract(hdr.data);
        transition accept;
    }
}

control main_control(inout headers_t hdr, inout metadata_t meta, in pna_main_input_metadata_t istd,
                     inout pna_main_output_metadata_t ostd) {
    action known(bit<16> value) {
        hdr.data.b = 0xee;
        hdr.data.c = value;
    }
    action learn() {
        AddEntryErrorStatus_t status = add_entry("known", (known_params_t) { value = hdr.data.c }, (ExpireTimeProfileId_t) 0);
        if (status == ADD_ENTRY_SUCCESS) {
            hdr.data.b = 1;
        }
    }
    action learn_if() {
        AddEntryErrorStatus_t status =
            add_entry_if(hdr.data.c != 0, "known", (known_params_t) { value = hdr.data.c }, (ExpireTimeProfileId_t) 0);
        hdr.data.b = status == ADD_ENTRY_NOT_DONE ? 8w2 : 1;
    }
    table flows {
        key = { hdr.data.a: exact @name("a"); }
        actions = { @tableonly known; @defaultonly learn; }
        const default_action = learn();
        add_on_miss = true;
        size = 1;
    }
    table flows_if {
        key = { hdr.data.a: exact @name("a"); }
        actions = { @tableonly known; @defaultonly learn_if; }
        const default_action = learn_if();
        add_on_miss = true;
        size = 4;
    }

    apply {
        if (hdr.data.a < 0x10) {
            flows.apply();
        } else {
            flows_if.apply();
        }
        send_to_port((PortId_t) 2);
    }
}

control deparse(packet_out packet, inout headers_t hdr, in metadata_t meta, in pna_main_output_metadata_t ostd) {
    apply {
        packet.emit(hdr.data);
    }
}

PNA_NIC(parse(), main_control(), deparse()) main;
