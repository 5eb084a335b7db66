// SPDX-License-Identifier: Apache-2.0
//
// RFC 2698, color-blind: a packet of size B is red if Tp < B; else yellow if Tc < B, and Tp -= B;
// else green, and both decrease by B. The buckets start full (Tp = peak burst, Tc = committed
// burst) and refill at the peak and the committed rate up to their bursts. Here: bytes; committed
// Here: B = 1 packet; committed 1 packet/s, burst 1; peak 1 packet/s, burst 3. Color-aware:
// a red packet stays red, a yellow one is yellow at best (and takes only from Tp).

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

bit<8> code(in PNA_MeterColor_t colour) {
    if (colour == PNA_MeterColor_t.GREEN) {
        return 0x60;
    }
    if (colour == PNA_MeterColor_t.YELLOW) {
        return 0x61;
    }
    return 0x62;
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
    Meter<bit<8>>(4, PNA_MeterType_t.PACKETS) m;

    apply {
        PNA_MeterColor_t colour;
        if (hdr.data.b == 0) {
            colour = m.execute(hdr.data.a);
        } else if (hdr.data.b == 1) {
            colour = m.execute(hdr.data.a, PNA_MeterColor_t.YELLOW);
        } else {
            colour = m.execute(hdr.data.a, PNA_MeterColor_t.RED);
        }
        hdr.data.b = code(colour);
        send_to_port((PortId_t) 2);
    }
}

control deparse(packet_out packet, in headers_t hdr, in metadata_t meta, in pna_main_output_metadata_t ostd) {
    apply {
        packet.emit(hdr.data);
    }
}

PNA_NIC(parse(), pre(), main_control(), deparse()) main;
