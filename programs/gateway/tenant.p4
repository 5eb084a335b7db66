// SPDX-License-Identifier: Apache-2.0
//
// Which VPC does the packet come from? Its VNI says so.

#ifndef GATEWAY_TENANT_P4
#define GATEWAY_TENANT_P4

#include "metadata.p4"

control tenant_step(in headers_t hdr, inout metadata_t meta) {
    /// Packets and bytes that came in, by VPC.
    Counter<bit<64>, vpc_t>(1048576, PNA_CounterType_t.PACKETS_AND_BYTES) vpc_received;

    /// The VPC, and the routing instance that it uses by default.
    action set_vpc(vpc_t vpc, instance_t instance) {
        meta.vpc = vpc;
        meta.instance = instance;
    }

    action unknown_vni() {
        drop(meta, drop_reason_t.unknown_vni);
    }

    table tenant {
        key = { hdr.vxlan.vni: exact @name("vni"); }
        actions = { set_vpc; @defaultonly unknown_vni; }
        const default_action = unknown_vni();
        size = 1048576;
    }

    apply {
        tenant.apply();
        vpc_received.count(meta.vpc);
    }
}

#endif
