// SPDX-License-Identifier: Apache-2.0
//
// Does a list let the packet pass? The gateway asks twice: the list of the VPC that it comes from
// (acl_out), about what VMs send and what leaves the VPC; then the one that the route names
// (acl_in), about what is delivered to VMs and what passes through other VPCs. Lists are stateless,
// so answers need a rule of their own. The rule with the highest priority decides. A list's default
// is its rule of the lowest priority, with everything but the list left open; without any rule, all
// passes.
//
// Rules match the flow as the parser found it: ICMP type and code stand in for the ports, and
// protocols without ports have 0 in both. A later fragment has no ports; it shows 0, and the key
// `later_fragment` lets a rule about ports leave it out or take it in.

#ifndef GATEWAY_ACL_P4
#define GATEWAY_ACL_P4

#include "metadata.p4"

control acl_step(in headers_t hdr, inout metadata_t meta, in list_t rules)(drop_reason_t reason) {
    action permit() { }

    action deny() {
        drop(meta, reason);
    }

    /// A rule of a VPC that the packet passes through.
    action deny_transit() {
        drop(meta, drop_reason_t.acl_denied_transit);
    }

    table v4 {
        key = {
            rules:                      exact   @name("list");
            hdr.inner_ipv4.source:      ternary @name("source");
            hdr.inner_ipv4.destination: ternary @name("destination");
            meta.protocol:              ternary @name("protocol");
            meta.l4_source:             range   @name("l4_source");
            meta.l4_destination:        range   @name("l4_destination");
            (bit<1>) (meta.fragment == fragment_t.later): ternary @name("later_fragment");
        }
        actions = { permit; deny; deny_transit; }
        const default_action = permit();
        size = 262144;
    }

    table v6 {
        key = {
            rules:                      exact   @name("list");
            hdr.inner_ipv6.source:      ternary @name("source");
            hdr.inner_ipv6.destination: ternary @name("destination");
            meta.protocol:              ternary @name("protocol");
            meta.l4_source:             range   @name("l4_source");
            meta.l4_destination:        range   @name("l4_destination");
            (bit<1>) (meta.fragment == fragment_t.later): ternary @name("later_fragment");
        }
        actions = { permit; deny; deny_transit; }
        const default_action = permit();
        size = 262144;
    }

    apply {
        if (hdr.inner_ipv4.isValid()) {
            v4.apply();
        } else {
            v6.apply();
        }
    }
}

#endif
