// SPDX-License-Identifier: Apache-2.0
//
// Conditions follow C: numbers of 64 bits with and without sign, characters, `?:`, no division in an
// unneeded operand of `&&`, `defined` from a macro, files that can be included, `#elifdef`, a counter.

#include <core.p4>
#include <v1model.p4>

#define HAS_LIMIT defined(LIMIT)
#define LIMIT 3
#if HAS_LIMIT && (LIMIT > 2 ? 1 : 0) && !defined ABSENT && -1 > 0u
#define FIRST 1
#else
#define FIRST 2
#endif

#ifdef ABSENT
#define SECOND 1
#elifdef LIMIT
#define SECOND 2
#endif

#if __has_include(<core.p4>) && !__has_include("no_such_file.p4") && (0 && 1 / 0 || 1)
#define THIRD 3
#endif

#if 'A' == 65 && '\n' == 10 && (1, 0x10) == 020 && ~0ull == 0xffffffffffffffff && __COUNTER__ == 0 && __COUNTER__ == 1
#define FOURTH 4
#else
#define FOURTH 5
#endif

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
        hdr.data = { FIRST, SECOND, THIRD, FOURTH };
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
