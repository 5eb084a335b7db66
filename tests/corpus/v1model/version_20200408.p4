// SPDX-License-Identifier: Apache-2.0
//
// The interface from V1MODEL_VERSION 20200408 on: PortId_t, and index types as type parameters.

#define V1MODEL_VERSION 20200408
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
    counter<bit<8>>(4, CounterType.packets) hits;
    register<bit<8>, bit<8>>(4) r;

    apply {
        bit<8> value;
        r.read(value, hdr.data.a);
        value = value + 1;
        r.write(hdr.data.a, value);
        hdr.data.b = value;
        hits.count(hdr.data.a);
        PortId_t out_port = 2;
        standard.egress_spec = out_port;
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
