// SPDX-License-Identifier: Apache-2.0
//
// clone I2E: the copy is the packet as received. It enters egress with instance_type 1 on the
// session's port; the original continues with ingress' changes. A missing session makes no copy.

#include <core.p4>
#include <v1model.p4>

header data_h {
    bit<8>  a;
    bit<8>  b;
    bit<16> c;
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
        hdr.data.b = 1;
        standard.egress_spec = 2;
        if (hdr.data.a == 1) {
            clone(CloneType.I2E, 5);
        } else if (hdr.data.a == 2) {
            clone(CloneType.I2E, 6);
        } else {
            clone(CloneType.I2E, 5);
            mark_to_drop(standard);
        }
    }
}

control egress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        hdr.data.c = hdr.data.c + (bit<16>) standard.instance_type;
    }
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
