// SPDX-License-Identifier: Apache-2.0
//
// A field list's number is any constant: in an annotation a constant, an expression, an enum member, a
// cast, or several; in a call likewise. A struct is preserved as a whole, and so are single fields of it.

#include <core.p4>
#include <v1model.p4>

header data_h {
    bit<8> a;
    bit<8> b;
    bit<8> c;
    bit<8> d;
}

const bit<8> KEEP = 1;

enum bit<8> Lists {
    Third = 7
}

struct pair_t {
    bit<8> p;
}

struct inner_t {
    @field_list[KEEP << 1]
    bit<8> q;
}

struct headers_t {
    data_h data;
}

struct metadata_t {
    @field_list(KEEP)
    bit<8> a;
    @field_list(KEEP + 1, (bit<8>)Lists.Third)
    bit<8> b;
    @field_list(KEEP) @field_list(Lists.Third)
    pair_t pair;
    inner_t inner;
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
    apply {
        standard.egress_spec = 2;
        meta.a = hdr.data.b;
        meta.b = hdr.data.b + 1;
        meta.pair.p = hdr.data.b + 2;
        meta.inner.q = hdr.data.b + 3;
        if (hdr.data.a == 0) {
            clone_preserving_field_list(CloneType.I2E, 5, KEEP);
        } else if (hdr.data.a == 1) {
            clone_preserving_field_list(CloneType.I2E, 5, KEEP + 1);
        } else {
            clone_preserving_field_list(CloneType.I2E, 5, (bit<8>)Lists.Third);
        }
    }
}

control egress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        if (standard.instance_type == 1) {
            hdr.data = { meta.a, meta.b, meta.pair.p, meta.inner.q };
        }
    }
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
