// SPDX-License-Identifier: Apache-2.0
//
// AUTO_DELETE: an entry lives for the time of its expire-time profile after insertion or a timer restart; a
// hit whose action doesn't restart the timer doesn't prolong it, because another action of the table does.

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
    action known() {
        hdr.data.b = 2;
        restart_expire_timer();
    }
    action quiet() {
        hdr.data.b = 3;
    }
    action learn() {
        hdr.data.b = 1;
        if (hdr.data.c == 0) {
            add_entry("known", {}, (ExpireTimeProfileId_t) 4);
        } else {
            add_entry("quiet", {}, (ExpireTimeProfileId_t) 4);
        }
    }
    table flows {
        key = { hdr.data.a: exact @name("a"); }
        actions = { @tableonly known; @tableonly quiet; @defaultonly learn; }
        const default_action = learn();
        add_on_miss = true;
        pna_idle_timeout = PNA_IdleTimeout_t.AUTO_DELETE;
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
