// SPDX-License-Identifier: Apache-2.0
//
// Was the tenant's frame for us? A VM sends to the VPC's router, which we are; what it sends within its subnet
// may be to the other VM itself, as on one link. Frames to all, to groups and to others are not routed
// (RFC 1812, section 5.3.4).

#ifndef GATEWAY_INNER_LINK_P4
#define GATEWAY_INNER_LINK_P4

#include "metadata.p4"

control inner_link_step(in headers_t hdr, inout metadata_t meta) {
    mac_t own = 0;

    /// The MAC of the router inside each VPC.
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
    }
}

#endif
