// SPDX-License-Identifier: Apache-2.0
//
// Does a VPC's list let the packet pass? The gateway asks twice: the VPC that it comes from
// (acl_out), then the VPC that it goes to (acl_in). Lists are stateless, so answers need a rule
// of their own. The rule with the highest priority decides. A VPC's default is its rule of the
// lowest priority, with everything but the VPC left open; without any rule, all passes.
//
// Rules match the flow as the parser found it: ICMP type and code stand in for the ports, and
// protocols without ports have 0 in both. A later fragment has no ports; it shows 0, and the key
// `later_fragment` lets a rule about ports leave it out or take it in.

#ifndef GATEWAY_ACL_P4
#define GATEWAY_ACL_P4

#include "metadata.p4"

control acl_step(in headers_t hdr, inout metadata_t meta, in vpc_t vpc)(drop_reason_t reason) {
    action permit() { }

    action deny() {
        drop(meta, reason);
    }

    table v4 {
        key = {
            vpc:                        exact   @name("vpc");
            hdr.inner_ipv4.source:      ternary @name("source");
            hdr.inner_ipv4.destination: ternary @name("destination");
            meta.protocol:              ternary @name("protocol");
            meta.l4_source:             range   @name("l4_source");
            meta.l4_destination:        range   @name("l4_destination");
            (bit<1>) (meta.fragment == fragment_t.later): ternary @name("later_fragment");
        }
        actions = { permit; deny; }
        const default_action = permit();
        size = 262144;
    }

    table v6 {
        key = {
            vpc:                        exact   @name("vpc");
            hdr.inner_ipv6.source:      ternary @name("source");
            hdr.inner_ipv6.destination: ternary @name("destination");
            meta.protocol:              ternary @name("protocol");
            meta.l4_source:             range   @name("l4_source");
            meta.l4_destination:        range   @name("l4_destination");
            (bit<1>) (meta.fragment == fragment_t.later): ternary @name("later_fragment");
        }
        actions = { permit; deny; }
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
