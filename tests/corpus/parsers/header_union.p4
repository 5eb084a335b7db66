// SPDX-License-Identifier: Apache-2.0
//
// Of a union's headers at most one is valid: making one valid makes the others invalid;
// emit emits the valid one; isValid returns whether one is valid (section "Header unions").

#include <core.p4>
#include <v1model.p4>

header byte_h {
    bit<8> v;
}
header short_h {
    bit<8> v;
}
header long_h {
    bit<16> v;
}
header_union either_u {
    short_h s;
    long_h  l;
}

struct headers_t {
    byte_h kind;
    either_u either;
    byte_h valid;
}

struct metadata_t { }

parser parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.kind);
        transition select(hdr.kind.v) {
            1: short;
            2: long;
            4: short;
            default: accept;
        }
    }
    state short {
        packet.extract(hdr.either.s);
        transition accept;
    }
    state long {
        packet.extract(hdr.either.l);
        transition accept;
    }
}

control verify_checksums(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control ingress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        if (hdr.kind.v == 4) {
            hdr.either.l.setValid();
            hdr.either.l.v = 0x1234;
        }
        hdr.valid.setValid();
        hdr.valid.v = 0;
        if (hdr.either.isValid()) {
            hdr.valid.v = 1;
        }
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
        packet.emit(hdr.kind);
        packet.emit(hdr.either);
        packet.emit(hdr.valid);
    }
}

V1Switch(parse(), verify_checksums(), ingress(), egress(), compute_checksums(), deparse()) main;
