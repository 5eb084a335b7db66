// SPDX-License-Identifier: Apache-2.0
//
// Which VPC does the packet come from? The VNI determines it. A VPC can restrict its sources to
// servers with machines of the VPC and to remotes of its routes, so that a compromised server
// cannot send packets of tenants that it does not host.

#ifndef GATEWAY_TENANT_P4
#define GATEWAY_TENANT_P4

#include "metadata.p4"

control tenant_step(in headers_t hdr, inout metadata_t meta) {
    /// Packets and bytes received, by VPC.
    Counter<bit<64>, vpc_t>(1048576, PNA_CounterType_t.PACKETS_AND_BYTES) vpc_received;

    bool strict_sources;

    /// Sets the VPC, its default routing instance, and the options and extension headers that it
    /// refuses.
    action set_vpc(vpc_t vpc, instance_t instance, extensions_t refused) {
        meta.vpc = vpc;
        meta.instance = instance;
        meta.refused = refused;
        strict_sources = false;
        vpc_received.count(vpc);
    }

    /// Like `set_vpc`, and restricts the sources to entries of `vpc_source_v4` and `vpc_source_v6`.
    action set_strict_vpc(vpc_t vpc, instance_t instance, extensions_t refused) {
        meta.vpc = vpc;
        meta.instance = instance;
        meta.refused = refused;
        strict_sources = true;
        vpc_received.count(vpc);
    }

    /// Like the others, for a VPC with more options: whether it restricts its sources, whether the
    /// gateway answers ARP and neighbour solicitations, whether the packets that open TCP
    /// connections must not ask for more bytes of data in a segment than `mss_v4` or `mss_v6`,
    /// whether it or a VPC that peerings connect with it has security groups, and whether it has
    /// services.
    action set_vpc_with(vpc_t vpc, instance_t instance, extensions_t refused, bit<1> strict,
                        bit<1> answers, bit<1> limits, bit<16> mss_v4, bit<16> mss_v6, bit<1> groups,
                        bit<1> services) {
        meta.vpc = vpc;
        meta.instance = instance;
        meta.refused = refused;
        strict_sources = (bool) strict;
        meta.answers_neighbours = (bool) answers;
        meta.limits_mss = (bool) limits;
        meta.mss_v4 = mss_v4;
        meta.mss_v6 = mss_v6;
        meta.has_groups = (bool) groups;
        meta.has_services = (bool) services;
        vpc_received.count(vpc);
    }

    action unknown_vni() {
        drop(meta, drop_reason_t.unknown_vni);
    }

    table tenant {
        key = { hdr.vxlan.vni: exact @name("vni"); }
        actions = { set_vpc; set_strict_vpc; set_vpc_with; @defaultonly unknown_vni; }
        const default_action = unknown_vni();
        size = 1048576;
    }

    action allowed() { }

    action source_denied() {
        drop(meta, drop_reason_t.source_denied);
    }

    table vpc_source_v4 {
        key = {
            meta.vpc:              exact @name("vpc");
            hdr.outer_ipv4.source: lpm   @name("source");
        }
        actions = { allowed; @defaultonly source_denied; }
        const default_action = source_denied();
        size = 65536;
    }

    table vpc_source_v6 {
        key = {
            meta.vpc:              exact @name("vpc");
            hdr.outer_ipv6.source: lpm   @name("source");
        }
        actions = { allowed; @defaultonly source_denied; }
        const default_action = source_denied();
        size = 65536;
    }

    apply {
        tenant.apply();
        if (strict_sources) {
            if (hdr.outer_ipv4.isValid()) {
                vpc_source_v4.apply();
            } else {
                vpc_source_v6.apply();
            }
        }
    }
}

#endif
