// SPDX-License-Identifier: Apache-2.0
//
// Was the tenant's frame addressed to the gateway, and does its packet have a hop left?
//
// A VM sends to the router of its VPC, which is the gateway. Within a subnet, it can send to the
// other VM directly, as on one link. Frames to other addresses, to broadcast and to groups are not
// routed (RFC 1812, section 5.3.4).
//
// Between subnets the gateway is a router and counts as one hop. A packet without a remaining hop
// is dropped (RFC 1812, section 5.3.1; RFC 8200, section 3), which also ends loops between regions.
// Within a subnet, which is one link, the TTL is unchanged. The sender is told (`icmp_error.p4`).

#ifndef GATEWAY_INNER_LINK_P4
#define GATEWAY_INNER_LINK_P4

#include "metadata.p4"

control inner_link_step(inout headers_t hdr, inout metadata_t meta) {
    mac_t own = 0;

    /// Sets the MAC of the router in each VPC.
    action set_router(mac_t mac) {
        own = mac;
    }

    action no_router() {
        drop(meta, drop_reason_t.not_configured);
    }

    /// No key: the control plane sets the default action.
    table router {
        actions = { set_router; no_router; }
        default_action = no_router();
    }

    apply {
        router.apply();
        if (hdr.inner_ethernet.destination != own) {
            if (meta.hops != 0 || hdr.inner_ethernet.destination != meta.far_mac) {
                drop(meta, drop_reason_t.inner_other_mac);
            }
        }
        if (hdr.inner_ipv4.isValid()) {
            if (hdr.inner_ipv4.ttl <= meta.hops) {
                drop_and_tell(hdr, meta, drop_reason_t.inner_ttl_expired, icmp_cause_t.time_exceeded, 0);
            }
        } else if (hdr.inner_ipv6.hop_limit <= meta.hops) {
            drop_and_tell(hdr, meta, drop_reason_t.inner_ttl_expired, icmp_cause_t.time_exceeded, 0);
        }
        if (meta.extensions != 0) {
            if ((meta.extensions & meta.refused) != 0) {
                drop(meta, drop_reason_t.extension_denied);
            }
        }
    }
}

#endif
