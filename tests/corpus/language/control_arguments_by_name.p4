// SPDX-License-Identifier: Apache-2.0
//
// A control applied with named arguments, whose headers, stacks and unions are copied back in the
// order of the call; a stack element with a run-time index is the one selected before the call.

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

header_union cell_or_data {
    cell_h cell;
    data_h data;
}

struct headers_t {
    data_h data;
    cell_h[3] cells;
    cell_or_data u;
}

struct metadata_t { }

bit<8> increment(inout bit<8> x) {
    x = x + 1;
    return x;
}

control change(inout bit<8> i, inout cell_h cell, out cell_or_data u, in bit<8> by) {
    apply {
        i = i + by;
        cell = { by };
        u.cell = cell;
    }
}

parser parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.data);
        transition accept;
    }
}

control verify_checksums(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control ingress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    change() sub;

    apply {
        standard.egress_spec = 2;
        bit<8> i = 0;
        hdr.u.data = { 1, 2, 3, 4 };
        // by is 1, cell refers to index 1, and i becomes 2.
        sub.apply(by = increment(i), cell = hdr.cells[i], u = hdr.u, i = i);
        hdr.data.a = i;
        // The member cell is also part of the union argument: the union is copied back last.
        sub.apply(cell = hdr.u.cell, i = hdr.data.b, u = hdr.u, by = increment(i));
        hdr.data.c = i;
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
