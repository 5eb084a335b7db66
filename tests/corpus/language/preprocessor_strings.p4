// SPDX-License-Identifier: Apache-2.0
//
// The preprocessor has no strings over several lines: it handles each line, so directives and macros work
// in them. A string within one line is unchanged, and so is the line's remainder after a single quote.

#include <core.p4>
#include <v1model.p4>

#define LIMIT 7
#define USE_LIMIT
#define ANNOTATED(x) x

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
    action forward(bit<9> port) {
        standard.egress_spec = port;
    }
    @restriction("
#ifdef USE_LIMIT
        a < LIMIT; // it is not the end
#else
        one " and it's one apostrophe
#endif
    ")
    @text("LIMIT /* no comment */ \" // none")
    table ports {
        key = { hdr.data.a : exact; }
        actions = { forward; NoAction; }
        const entries = { ANNOTATED(LIMIT) : forward(3); }
    }
    apply {
        standard.egress_spec = 2;
        ports.apply();
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
