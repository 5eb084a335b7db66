// SPDX-License-Identifier: Apache-2.0
//
// A backslash and a newline are removed before tokens are formed: within a name, a number, an operator and a
// comment, also with blanks between the two (C, "Translation phases", phase 2; GNU's treatment of blanks).

#include <core.p4>
#include <v1model.p4>

#define WHOLE_NA\
ME 0x1\
2
#define SHIFTED (3 <\
< 2)
#define SUM 1 + \  
    6

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
        hdr.data.a = WHOLE_\
NAME;
        hdr.data.b = SHIFTED;
        hdr.data.c = SUM; // a comment that continues \
        hdr.data.c = 0;
        hdr.data.d = hdr.data.c -\
  1;
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
