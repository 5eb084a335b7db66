// SPDX-License-Identifier: Apache-2.0
//
// Where does the inner destination lead, seen from the packet's routing instance? The longest
// prefix wins, and its action is the route's scope.
//
// A chain of peerings (A to B to C to D) is one route here: whoever installs entries follows the
// chain, refuses loops and chains of more than four, and writes the last VPC into the route.
// So the data plane needs one lookup and can't loop, at the price of one entry for each prefix and
// instance that can reach it. The lists of the VPCs on the way are one list, too, which the route names.
//
// Between two of a VPC's subnets, and to all else, the gateway is a router: it counts as one hop, and a packet
// that has none left is dropped (RFC 1812, section 5.3.1; RFC 8200, section 3); that also ends loops between
// regions. A subnet is one link: there the TTL stays as it is. No ICMP "time exceeded" is sent.

#ifndef GATEWAY_ROUTING_P4
#define GATEWAY_ROUTING_P4

#include "metadata.p4"

control routing_step(in headers_t hdr, inout metadata_t meta) {
    /// Packets and bytes by the scope of the route that they took; the index is scope_t.
    Counter<bit<64>, bit<8>>(8, PNA_CounterType_t.PACKETS_AND_BYTES) route_scope;

    // In which bits of the route's subnet source and destination differ; 0: both are in it.
    ipv4_t apart_v4 = 1;
    ipv6_t apart_v6 = 1;
    bit<8> hops_left;

    /// A VM of the same VPC: the VNI stays. `mask` is that of the subnet.
    action local_v4(ipv4_t mask) {
        meta.scope = scope_t.local;
        meta.in_list = meta.vpc;
        meta.to_vni = hdr.vxlan.vni;
        apart_v4 = (hdr.inner_ipv4.source ^ hdr.inner_ipv4.destination) & mask;
    }

    action local_v6(ipv6_t mask) {
        meta.scope = scope_t.local;
        meta.in_list = meta.vpc;
        meta.to_vni = hdr.vxlan.vni;
        apart_v6 = (hdr.inner_ipv6.source ^ hdr.inner_ipv6.destination) & mask;
    }

    /// A VM of the VPC at the end of the chain of peerings. `acl`: that VPC's, or, if there are others on the
    /// way, what they and that one permit. `refused`: which options and extension headers they refuse.
    action peer(list_t acl, vni_t vni, extensions_t refused) {
        meta.scope = scope_t.peer;
        meta.in_list = acl;
        meta.to_vni = vni;
        meta.refused = meta.refused | refused;
    }

    /// The tenant's own data centre, behind a remote tunnel end point that expects `vni`. `acl`: what the
    /// VPCs on the way permit, NO_LIST if there are none.
    action idc(remote_t remote, vni_t vni, list_t acl) {
        meta.scope = scope_t.idc;
        meta.in_list = acl;
        meta.remote = remote;
        meta.to_vni = vni;
    }

    /// A VPC in another region, behind the gateway there, which expects `vni`.
    action cross_region(remote_t remote, vni_t vni, list_t acl) {
        meta.scope = scope_t.cross_region;
        meta.in_list = acl;
        meta.remote = remote;
        meta.to_vni = vni;
    }

    action internet(list_t acl) {
        meta.scope = scope_t.internet;
        meta.in_list = acl;
    }

    action blackhole() {
        meta.scope = scope_t.blackhole;
    }

    action no_route() {
        drop(meta, drop_reason_t.no_route);
    }

    table route_v4 {
        key = {
            meta.instance:              exact @name("instance");
            hdr.inner_ipv4.destination: lpm   @name("destination");
        }
        actions = { local_v4; peer; idc; cross_region; internet; blackhole; no_route; }
        const default_action = no_route();
        size = 1048576;
    }

    table route_v6 {
        key = {
            meta.instance:              exact @name("instance");
            hdr.inner_ipv6.destination: lpm   @name("destination");
        }
        actions = { local_v6; peer; idc; cross_region; internet; blackhole; no_route; }
        const default_action = no_route();
        size = 1048576;
    }

    apply {
        meta.hops = 1;
        if (hdr.inner_ipv4.isValid()) {
            route_v4.apply();
            hops_left = hdr.inner_ipv4.ttl;
            if (apart_v4 == 0) {
                meta.hops = 0;
            }
        } else {
            route_v6.apply();
            hops_left = hdr.inner_ipv6.hop_limit;
            if (apart_v6 == 0) {
                meta.hops = 0;
            }
        }
        route_scope.count((bit<8>) meta.scope);
        if (meta.scope == scope_t.blackhole) {
            drop(meta, drop_reason_t.blackhole_route);
        }
        if (hops_left <= meta.hops) {
            drop(meta, drop_reason_t.inner_ttl_expired);
        }
        if (meta.extensions != 0) {
            if ((meta.extensions & meta.refused) != 0) {
                drop(meta, drop_reason_t.extension_denied);
            }
        }
    }
}

#endif
