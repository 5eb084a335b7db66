// SPDX-License-Identifier: Apache-2.0
//
// Directives among the arguments of a macro are executed; a missing variable argument removes the comma before it;
// `__VA_OPT__` expands only with variable arguments; parameter names may contain dots (C with GNU extensions).

#include <core.p4>
#include <v1model.p4>

#define SAME(x) x
#define SUM(first, ...) sum(first, ##__VA_ARGS__)
#define NAMED(first, others...) sum(first, ##others)
#define TIMES(x, ...) ((x) __VA_OPT__(* (__VA_ARGS__)))
#undef ABSENT

bit<8> sum(bit<8> x) {
    return x + 1;
}

header data_h {
    bit<8> a;
    bit<8> b;
    bit<8> c;
    bit<8> d;
}

struct headers_t {
    data_h data;
}

struct metadata_t { }

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
    apply {
        hdr.data.a = SAME(
#ifdef ABSENT
            1
#elifndef ABSENT
            2
#else
            3
#endif
        );
        hdr.data.b = SUM(4);
        hdr.data.c = NAMED(7);
        hdr.data.d = TIMES(3) + TIMES(4, 5);
        standard.egress_spec = 2;
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
        packet.emit(hdr.data);
    }
}

V1Switch(parse(), verify_checksums(), ingress(), egress(), compute_checksums(), deparse()) main;
