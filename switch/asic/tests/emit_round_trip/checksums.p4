// SPDX-License-Identifier: Apache-2.0
//
// Uses of InternetChecksum without a v1model extern: lists on some paths of
// a parser and in its loops, several lists, lists that are not whole words,
// updates (RFC 1624), states, actions. Only `lone` has a single list.

#include <core.p4>
#include <pna.p4>

header data_h {
    bit<4>  version;
    bit<4>  count;
    bit<8>  kind;
    bit<16> sum;
    bit<16> x;
    bit<16> y;
    int<8>  number;
    bit<7>  odd;
    bit<1>  flag;
}

header result_h {
    bit<16> skipped;
    bit<16> with_options;
    bit<16> updated;
    bit<16> taken;
    bit<16> taken_twice;
    bit<16> nothing;
    bit<16> uneven;
    bit<16> cleared;
    bit<16> state;
    bit<16> from_state;
    bit<16> in_actions;
    bit<16> first;
    bit<16> second;
    bit<16> lone;
}

struct headers_t {
    data_h data;
    result_h result;
}

struct metadata_t {
    bit<16> skipped;
    bit<16> with_options;
}

parser parse(packet_in packet, out headers_t hdr, inout metadata_t meta, in pna_main_parser_input_metadata_t istd) {
    InternetChecksum() skipped;
    InternetChecksum() whole;
    bit<4> left;

    // Entered repeatedly, so that a sum may not restart here.
    state start {
        skipped.add(packet.lookahead<bit<8>>());
        packet.advance(8);
        transition select(packet.lookahead<bit<8>>()) {
            0xfe:    start;
            default: data;
        }
    }

    state data {
        packet.extract(hdr.data);
        meta.skipped = skipped.get();
        whole.add({ hdr.data.version, hdr.data.count, hdr.data.kind, hdr.data.sum, hdr.data.x, hdr.data.y });
        left = hdr.data.count;
        transition select(hdr.data.count) {
            0:       checked;
            1:       options_4;
            2:       options_20;
            3:       options_40;
            default: option;
        }
    }

    state options_4  { whole.add({ packet.lookahead<bit<32>>() }); transition checked; }
    state options_20 { whole.add({ packet.lookahead<bit<160>>() }); transition checked; }
    state options_40 { whole.add({ packet.lookahead<bit<320>>() }); transition checked; }

    state option {
        whole.add({ packet.lookahead<bit<16>>() });
        packet.advance(16);
        left = left - 1;
        transition select(left) {
            0:       checked;
            default: option;
        }
    }

    state checked {
        meta.with_options = whole.get();
        transition accept;
    }
}

control pre(in headers_t hdr, inout metadata_t meta, in pna_pre_input_metadata_t istd,
            inout pna_pre_output_metadata_t ostd) {
    apply { }
}

control main_control(inout headers_t hdr, inout metadata_t meta, in pna_main_input_metadata_t istd,
                     inout pna_main_output_metadata_t ostd) {
    InternetChecksum() update;
    InternetChecksum() taken;
    InternetChecksum() nothing;
    InternetChecksum() uneven;
    InternetChecksum() whole;
    InternetChecksum() other;
    InternetChecksum() acted;
    InternetChecksum() twice;
    InternetChecksum() lone;

    action add_x() { acted.add(hdr.data.x); }
    action take_y() { acted.subtract({ hdr.data.y, hdr.data.x }); }

    table kinds {
        key = { hdr.data.kind: exact; }
        actions = { add_x; take_y; NoAction; }
        const entries = { 0xff: add_x(); 1: take_y(); }
        default_action = NoAction();
    }

    apply {
        hdr.result.setValid();
        hdr.result.skipped = meta.skipped;
        hdr.result.with_options = meta.with_options;

        taken.subtract({ hdr.data.x, hdr.data.y });
        hdr.result.taken = taken.get();
        taken.subtract(hdr.data.sum);
        hdr.result.taken_twice = taken.get_state();

        hdr.result.nothing = nothing.get();

        uneven.add({ hdr.data.odd, hdr.data.number });
        uneven.add({ hdr.data.number, hdr.data.odd, hdr.data.x, hdr.data.kind == 1, 5w21, hdr.data.count });
        uneven.subtract({ hdr.data.count, hdr.data.sum, hdr.data.flag });
        hdr.result.uneven = uneven.get();

        whole.add({ hdr.data.x, hdr.data.y });
        whole.clear();
        whole.add({ hdr.data.y, hdr.data.sum });
        hdr.result.cleared = whole.get();
        hdr.result.state = whole.get_state();
        other.set_state(hdr.data.x);
        other.add({ hdr.result.state, hdr.data.y });
        hdr.result.from_state = other.get();

        acted.add({ hdr.data.y, hdr.data.sum });
        kinds.apply();
        hdr.result.in_actions = acted.get();

        twice.add({ hdr.data.x, hdr.data.sum });
        hdr.result.first = twice.get();
        twice.add(hdr.data.y);
        hdr.result.second = twice.get();

        lone.add({ hdr.data.x, hdr.data.y, hdr.data.odd });
        hdr.result.lone = lone.get();

        update.subtract({ hdr.data.sum, hdr.data.x, hdr.data.y });
        hdr.data.x = hdr.data.x - 1;
        hdr.data.y = hdr.data.y |+| 1;
        update.add({ hdr.data.x, hdr.data.y });
        hdr.data.sum = update.get();
        hdr.result.updated = hdr.data.sum;
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
