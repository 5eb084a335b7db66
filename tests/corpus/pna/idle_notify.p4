// SPDX-License-Identifier: Apache-2.0
//
// NOTIFY_CONTROL: the control plane is notified when an entry has been idle for its time,
// and each time again; the entry stays. No action restarts the timer, so each hit does.

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
    action mark(bit<8> value) {
        hdr.data.b = value;
    }
    table t {
        key = { hdr.data.a: exact @name("a"); }
        actions = { mark; NoAction; }
        default_action = NoAction();
        pna_idle_timeout = PNA_IdleTimeout_t.NOTIFY_CONTROL;
    }

    apply {
        t.apply();
        send_to_port((PortId_t) 2);
    }
}

control deparse(packet_out packet, in headers_t hdr, in metadata_t meta, in pna_main_output_metadata_t ostd) {
    apply {
        packet.emit(hdr.data);
    }
}

PNA_NIC(parse(), pre(), main_control(), deparse()) main;
