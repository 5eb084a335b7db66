// SPDX-License-Identifier: Apache-2.0
//
// Named arguments are evaluated in the order of the call, not of the parameters; also in an extern's
// call, and in a table's list of actions (P4-16, "Calling convention: call by copy in/copy out").

#include <core.p4>
#include <v1model.p4>

header data_h {
    bit<8> a;
    bit<8> b;
    bit<8> c;
    bit<8> d;
}

header cell_h {
    bit<8> v;
}

struct headers_t {
    data_h data;
    cell_h[4] cells;
}

struct metadata_t { }

bit<8> increment(inout bit<8> x) {
    x = x + 1;
    return x;
}

bit<8> join(in bit<8> high, in bit<8> low) {
    return (high << 4) | low;
}

void mark(inout cell_h first, inout cell_h second) {
    first.v = 0xaa;
    second.v = 0xbb;
}

control joined(in bit<8> high, in bit<8> low, out bit<8> both) {
    apply {
        both = join(high, low);
    }
}

parser parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.data);
        packet.extract(hdr.cells.next);
        packet.extract(hdr.cells.next);
        packet.extract(hdr.cells.next);
        packet.extract(hdr.cells.next);
        transition accept;
    }
}

control verify_checksums(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control ingress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    register<bit<8>>(4) cells;
    joined() sub;

    action set(in bit<8> high, in bit<8> low) {
        hdr.data.d = join(high, low);
    }

    table t {
        key = {
            hdr.data.a : exact;
        }
        actions = {
            set(low = increment(hdr.data.b), high = increment(hdr.data.b));
            NoAction;
        }
        const entries = {
            1 : set(low = increment(hdr.data.b), high = increment(hdr.data.b));
        }
        const default_action = NoAction;
    }

    apply {
        standard.egress_spec = 2;
        bit<8> i = 0;
        mark(second = hdr.cells[increment(i)], first = hdr.cells[increment(i)]);
        // i is 2: the value 3 goes to cell 4 & 3, which is 0.
        cells.write(value = increment(i), index = (bit<32>)(increment(i) & 3));
        cells.read(hdr.data.c, 0);
        hdr.data.b = 4;
        t.apply();
        sub.apply(low = increment(i), both = hdr.data.a, high = increment(i));
    }
}

control egress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply { }
}

control compute_checksums(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control deparse(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(parse(), verify_checksums(), ingress(), egress(), compute_checksums(), deparse()) main;
