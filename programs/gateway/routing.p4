// SPDX-License-Identifier: Apache-2.0
//
// Where does the inner destination lead, seen from the packet's routing instance? The longest
// prefix wins, and its action is the route's scope.
//
// A chain of peerings (A to B to C to D) is one route here: whoever installs entries follows the
// chain, refuses loops and chains of more than four, and writes the last VPC into the route.
// So the data plane needs one lookup and can't loop, at the price of one entry for each prefix and
// instance that can reach it.

#ifndef GATEWAY_ROUTING_P4
#define GATEWAY_ROUTING_P4

#include "metadata.p4"

control routing_step(in headers_t hdr, inout metadata_t meta) {
    /// Packets and bytes by the scope of the route that they took; the index is scope_t.
    Counter<bit<64>, bit<8>>(8, PNA_CounterType_t.PACKETS_AND_BYTES) route_scope;

    /// A VM of the same VPC: the VNI stays.
    action local() {
        meta.scope = scope_t.local;
        meta.to_vpc = meta.vpc;
        meta.to_vni = hdr.vxlan.vni;
    }

    /// A VM of the VPC at the end of the chain of peerings.
    action peer(vpc_t vpc, vni_t vni) {
        meta.scope = scope_t.peer;
        meta.to_vpc = vpc;
        meta.to_vni = vni;
    }

    /// The tenant's own data centre, behind a remote tunnel end point that expects `vni`.
    action idc(remote_t remote, vni_t vni) {
        meta.scope = scope_t.idc;
        meta.remote = remote;
        meta.to_vni = vni;
    }

    /// A VPC in another region, behind the gateway there, which expects `vni`.
    action cross_region(remote_t remote, vni_t vni) {
        meta.scope = scope_t.cross_region;
        meta.remote = remote;
        meta.to_vni = vni;
    }

    action internet() {
        meta.scope = scope_t.internet;
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
        actions = { local; peer; idc; cross_region; internet; blackhole; no_route; }
        const default_action = no_route();
        size = 1048576;
    }

    table route_v6 {
        key = {
            meta.instance:              exact @name("instance");
            hdr.inner_ipv6.destination: lpm   @name("destination");
        }
        actions = { local; peer; idc; cross_region; internet; blackhole; no_route; }
        const default_action = no_route();
        size = 1048576;
    }

    apply {
        if (hdr.inner_ipv4.isValid()) {
            route_v4.apply();
        } else {
            route_v6.apply();
        }
        route_scope.count((bit<8>) meta.scope);
        if (meta.scope == scope_t.blackhole) {
            drop(meta, drop_reason_t.blackhole_route);
        }
    }
}

#endif
