// SPDX-License-Identifier: Apache-2.0
//
// Does the VPC have a routing table for this source? The policy route with the longest prefix of
// the inner source selects the routing instance. Without one, the default instance applies.

#ifndef GATEWAY_POLICY_ROUTING_P4
#define GATEWAY_POLICY_ROUTING_P4

#include "metadata.p4"

control policy_routing_step(in headers_t hdr, inout metadata_t meta) {
    action use_instance(instance_t instance) {
        meta.instance = instance;
    }

    table policy_route_v4 {
        key = {
            meta.vpc:              exact @name("vpc");
            hdr.inner_ipv4.source: lpm   @name("source");
        }
        actions = { use_instance; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 65536;
    }

    table policy_route_v6 {
        key = {
            meta.vpc:              exact @name("vpc");
            hdr.inner_ipv6.source: lpm   @name("source");
        }
        actions = { use_instance; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 65536;
    }

    apply {
        if (hdr.inner_ipv4.isValid()) {
            policy_route_v4.apply();
        } else {
            policy_route_v6.apply();
        }
    }
}

#endif
