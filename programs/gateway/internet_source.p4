// SPDX-License-Identifier: Apache-2.0
//
// Can the source of a packet from the Internet be a host there? A packet to an elastic address, a port
// forward or a service must not have the address of another VM of the VPC: security groups would take
// it for a packet of a flow between both, and the answer would go to that VM. A packet of a NAT's session
// comes from where the VM has sent to, so it needs no test. Over IPv6, `internet_v6` tests it.

#ifndef GATEWAY_INTERNET_SOURCE_P4
#define GATEWAY_INTERNET_SOURCE_P4

#include "metadata.p4"
#include "verdicts.p4"

control internet_source_step(in headers_t hdr, inout metadata_t meta) {
    action forged() {
        drop(meta, drop_reason_t.internet_source);
    }

    /// The subnets of VPCs whose VMs have public addresses.
    table own_subnet {
        key = {
            meta.vpc:              exact @name("vpc");
            hdr.inner_ipv4.source: lpm   @name("source");
        }
        actions = { forged; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 65536;
    }

    apply {
        own_subnet.apply();
    }
}

#endif
