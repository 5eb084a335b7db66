// SPDX-License-Identifier: Apache-2.0
//
// Validity: setValid, setInvalid, copying a header copies its validity, {#} is an invalid header; two headers
// are equal if both are invalid, or both are valid with equal fields (section "Operations on headers").

#include <core.p4>
#include <v1model.p4>

header pair_h {
    bit<8> a;
    bit<8> b;
}
header flags_h {
    bit<8> v;
}

struct headers_t {
    pair_h one;
    pair_h two;
    pair_h three;
    flags_h flags;
}

struct metadata_t { }

parser parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.one);
        packet.extract(hdr.flags);
        transition accept;
    }
}

control verify_checksums(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control ingress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        bit<8> flags = 0;
        hdr.two = hdr.one;
        if (hdr.one == hdr.two) {
            flags = flags + 4;
        }
        hdr.one.setInvalid();
        if (hdr.one == hdr.two) {
            flags = flags + 2;
        }
        hdr.three = {#};
        if (hdr.one == hdr.three) {
            flags = flags + 1;
        }
        hdr.flags.v = flags;
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
        packet.emit(hdr.one);
        packet.emit(hdr.two);
        packet.emit(hdr.three);
        packet.emit(hdr.flags);
    }
}

V1Switch(parse(), verify_checksums(), ingress(), egress(), compute_checksums(), deparse()) main;
