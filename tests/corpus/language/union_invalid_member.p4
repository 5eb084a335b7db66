// SPDX-License-Identifier: Apache-2.0
//
// setInvalid of any union member invalidates the whole union; so does the assignment of an invalid
// header to one, by `=`, by `{#}` and by the copy-out of a call (P4-16, "Operations on header unions").

#include <core.p4>
#include <v1model.p4>

header data_h {
    bit<8> a;
    bit<8> b;
    bit<8> c;
    bit<8> d;
}

header one_h {
    bit<8> v;
}

header two_h {
    bit<8> v;
    bit<8> w;
}

header_union one_or_two {
    one_h one;
    one_h other;
    two_h two;
}

struct headers_t {
    data_h data;
    one_or_two u1;
    one_or_two u2;
}

struct metadata_t { }

void keep(inout one_h x) { }

void reset(out one_h x) { }

void swap(inout one_or_two a, inout one_or_two b) {
    one_or_two c = a;
    a = b;
    b = c;
}

bit<8> bits(in one_or_two u) {
    return (u.one.isValid() ? 8w1 : 0) | (u.other.isValid() ? 8w2 : 0) | (u.two.isValid() ? 8w4 : 0)
         | (u.isValid() ? 8w8 : 0);
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
        one_h invalid;
        invalid.setInvalid();
        hdr.u1.two.setValid();
        hdr.u1.two.v = 0x12;
        if (hdr.data.a == 0) {
            hdr.u1.one.setInvalid();
        } else if (hdr.data.a == 1) {
            hdr.u1.one = invalid;
        } else if (hdr.data.a == 2) {
            hdr.u1.one = (one_h){#};
        } else if (hdr.data.a == 3) {
            keep(hdr.u1.one);
        } else if (hdr.data.a == 4) {
            reset(hdr.u1.one);
        } else if (hdr.data.a == 5) {
            // One member from another, which becomes invalid.
            hdr.u1.one = { 0x34 };
            hdr.u1.other = hdr.u1.one;
        } else if (hdr.data.a == 6) {
            hdr.u1.one = hdr.u1.other;
        } else if (hdr.data.a == 7) {
            // A union is copied as a whole, and the copy has the original's validity.
            hdr.u2 = hdr.u1;
            hdr.u1.one.setInvalid();
        } else if (hdr.data.a == 8) {
            hdr.u2.other = { 0x56 };
            swap(hdr.u1, hdr.u2);
        } else if (hdr.data.a == 9) {
            hdr.u1 = (one_or_two){#};
            hdr.data.d = hdr.u1 == (one_or_two){#} && hdr.u1 == hdr.u2 ? 8w1 : 0;
        } else {
            // A write to a field of an invalid member has no effect.
            hdr.u1.one.v = 1;
        }
        hdr.data.b = bits(hdr.u1);
        hdr.data.c = bits(hdr.u2);
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
