// SPDX-License-Identifier: Apache-2.0
//
// Most packets are forwarded by a table. A few need, after the forwarding decision,
// operations that a switching ASIC lacks: a division, a digest, a sum of 48 bits.

#include <core.p4>
#include <pna.p4>

header data_h {
    bit<8>  kind;
    bit<8>  to;
    bit<16> a;
    bit<16> b;
    bit<48> wide;
}

struct headers_t {
    data_h data;
}

struct metadata_t { }

struct learn_t {
    bit<16> a;
    bit<16> b;
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
    Digest<learn_t>() learn;
    Counter<bit<64>, bit<8>>(256, PNA_CounterType_t.PACKETS) kinds;

    action forward(PortId_t port) {
        send_to_port(port);
    }
    action drop() {
        drop_packet();
    }
    table routes {
        key = { hdr.data.to: exact; }
        actions = { forward; drop; NoAction; }
        const default_action = NoAction();
        const entries = {
            0: forward((PortId_t) 1);
            1: forward((PortId_t) 2);
            2: drop();
        }
    }

    apply {
        send_to_port((PortId_t) 3);
        routes.apply();
        if (hdr.data.kind == 7) {
            hdr.data.b = hdr.data.a / (hdr.data.b | 1);
        } else if (hdr.data.kind == 8) {
            learn.pack({ hdr.data.a, hdr.data.b });
        } else if (hdr.data.kind == 9) {
            hdr.data.wide = hdr.data.wide + 1;
        }
        kinds.count(hdr.data.kind);
    }
}

control deparse(packet_out packet, in headers_t hdr, in metadata_t meta, in pna_main_output_metadata_t ostd) {
    apply {
        packet.emit(hdr.data);
    }
}

PNA_NIC(parse(), pre(), main_control(), deparse()) main;
