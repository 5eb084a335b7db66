// SPDX-License-Identifier: Apache-2.0
//
// Where `##` gives no single token, as next to a dot or a parenthesis, both sides stay: the
// preprocessor for assembler, which P4 uses, does not complain. An empty side leaves the other.

#include <core.p4>
#include <v1model.p4>

#define COPY(to, from) hdr. ## data ## . ## to = hdr.data. ## from ## ;
#define SETTER(field) action set_ ## field ## (bit<8> value) { hdr.data. ## field ## = value; }
#define JOIN(x, y) x ## y

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
    SETTER(a)
    SETTER(b)
    apply {
        set_a(7);
        set_b(JOIN(0, x1F));
        COPY(c, a)
        hdr.data.d = JOIN(, 3) + JOIN(4,);
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
