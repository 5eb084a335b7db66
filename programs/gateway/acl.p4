// SPDX-License-Identifier: Apache-2.0
//
// Does an access list permit the packet? The gateway applies two lists. `acl_out` applies the list
// of the VPC that sent the packet, to packets from VMs and out of the VPC. `acl_in` applies the
// list that the route names, to packets for VMs and through other VPCs. Lists are stateless, so
// replies need their own rule. The rule with the highest priority decides. A list's default is its
// rule with the lowest priority and with wildcards in all fields except the list. Without any rule,
// all packets pass.
//
// Rules match the flow that the parser found. ICMP type and code take the place of the ports;
// protocols without ports have 0 in both. A later fragment whose datagram is not known (fragments.p4)
// has no ports and shows 0. With the key `later_fragment`, a rule on ports excludes or includes these.

#ifndef GATEWAY_ACL_P4
#define GATEWAY_ACL_P4

#include "metadata.p4"

control acl_step(inout headers_t hdr, inout metadata_t meta, in list_t rules)
                (drop_reason_t denied, drop_reason_t rejected) {
    action permit() { }

    action deny() {
        drop(meta, denied);
    }

    /// Denies a packet and tells its sender.
    action reject() {
        drop_and_tell(hdr, meta, rejected, icmp_cause_t.prohibited, 0);
    }

    /// Denies a packet by a rule of a VPC that it passes through.
    action deny_transit() {
        drop(meta, drop_reason_t.acl_denied_transit);
    }

    /// Rejects a packet by a rule of a VPC that it passes through.
    action reject_transit() {
        drop_and_tell(hdr, meta, drop_reason_t.acl_rejected_transit, icmp_cause_t.prohibited, 0);
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
        actions = { permit; deny; deny_transit; reject; reject_transit; }
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
        actions = { permit; deny; deny_transit; reject; reject_transit; }
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
