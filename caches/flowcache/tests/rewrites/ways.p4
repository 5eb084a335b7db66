// SPDX-License-Identifier: Apache-2.0
//
// On one path, entries decide the origin of bits (`masked`, `shifted`, `chosen`), or only values.

#include <core.p4>
#include <v1model.p4>

header item_h { bit<8> tag; bit<8> a; bit<8> b; bit<8> c; bit<8> d; bit<8> e; bit<16> length; }
struct headers_t { item_h item; }
struct metadata_t { bit<16> limit; }

parser pars(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start { packet.extract(hdr.item); transition accept; }
}

control check(inout headers_t hdr, inout metadata_t meta) { apply { } }

control ing(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    counter(16, CounterType.packets_and_bytes) kinds;

    action plain(bit<9> port, bit<8> value, bit<16> limit, bit<32> kind) {
        std.egress_spec = port;
        hdr.item.a = value;
        meta.limit = limit;
        kinds.count(kind);
    }
    action masked(bit<9> port, bit<8> mask, bit<8> more) {
        std.egress_spec = port;
        hdr.item.a = hdr.item.a & mask;
        hdr.item.b = hdr.item.b | more;
    }
    action shifted(bit<9> port, bit<8> by) {
        std.egress_spec = port;
        hdr.item.c = hdr.item.c << by;
    }
    action chosen(bit<9> port, bit<1> which) {
        std.egress_spec = port;
        hdr.item.a = which == 1 ? hdr.item.d : hdr.item.e;
    }
    table items {
        key = { hdr.item.tag: exact; }
        actions = { plain; masked; shifted; chosen; NoAction; }
        default_action = NoAction();
        size = 256;
    }
    apply {
        items.apply();
        if (meta.limit != 0) {
            if (hdr.item.length + 8 > meta.limit) {
                mark_to_drop(std);
            }
        }
    }
}

control eg(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) { apply { } }
control compute(inout headers_t hdr, inout metadata_t meta) { apply { } }
control dep(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr.item); } }

V1Switch(pars(), check(), ing(), eg(), compute(), dep()) main;
