// SPDX-License-Identifier: Apache-2.0
//
// mark_to_drop sets egress_spec to 511 and mcast_grp to 0; a later assignment revokes
// that; in egress it drops as well; a packet without an egress_spec goes to port 0.

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
        if (hdr.data.a == 1) {
            mark_to_drop(standard);
        } else if (hdr.data.a == 2) {
            mark_to_drop(standard);
            standard.egress_spec = 2;
        } else if (hdr.data.a == 3) {
            standard.mcast_grp = 1;
            mark_to_drop(standard);
        } else if (hdr.data.a == 4) {
            standard.egress_spec = 2;
        } else if (hdr.data.a == 6) {
            standard.mcast_grp = 1;
        }
    }
}

control egress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        if (hdr.data.a == 4) {
            mark_to_drop(standard);
        }
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
