// SPDX-License-Identifier: Apache-2.0
//
// InternetChecksum: over data with its correct checksum it is 0; incremental update by RFC 1624: subtract the
// old checksum and the old word, add the new word; get_state and set_state transfer a sum to another instance.

#include <core.p4>
#include <pna.p4>

header data_h {
    bit<16> x;
    bit<16> y;
    bit<16> sum;
    bit<16> verified;
}
header result_h {
    bit<16> state_of_x_y;
    bit<16> from_state;
}

struct headers_t {
    data_h data;
    result_h result;
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
    InternetChecksum() whole;
    InternetChecksum() update;
    InternetChecksum() other;

    apply {
        whole.add({ hdr.data.x, hdr.data.y });
        hdr.result.setValid();
        hdr.result.state_of_x_y = whole.get_state();
        other.set_state(hdr.result.state_of_x_y);
        hdr.result.from_state = other.get();
        whole.add(hdr.data.sum);
        hdr.data.verified = whole.get();

        update.subtract(hdr.data.sum);
        update.subtract(hdr.data.x);
        hdr.data.x = hdr.data.x + 1;
        update.add(hdr.data.x);
        hdr.data.sum = update.get();
        send_to_port((PortId_t) 2);
    }
}

control deparse(packet_out packet, in headers_t hdr, in metadata_t meta, in pna_main_output_metadata_t ostd) {
    apply {
        packet.emit(hdr.data);
        packet.emit(hdr.result);
    }
}

PNA_NIC(parse(), pre(), main_control(), deparse()) main;
