// SPDX-License-Identifier: Apache-2.0
//
// Where is the inner destination, seen from the packet's routing instance? The longest prefix wins,
// and its action is the scope of the route.
//
// A chain of peerings (A to B to C to D) is one route. The control plane follows the chain, refuses
// loops and chains of more than four VPCs, and writes the last VPC into the route. The data plane
// therefore needs one lookup and cannot loop, at the price of one entry for each prefix and
// instance that can reach it. The lists of the VPCs on the path are also one list, which the route
// names.
//
// The route also determines whether the packet stays within a subnet (one link) or takes a hop.

#ifndef GATEWAY_ROUTING_P4
#define GATEWAY_ROUTING_P4

#include "metadata.p4"

control routing_step(inout headers_t hdr, inout metadata_t meta) {
    /// Packets and bytes by the scope of their route; the index is scope_t.
    Counter<bit<64>, bit<8>>(8, PNA_CounterType_t.PACKETS_AND_BYTES) route_scope;

    bit<32> subnet_mask;
    bit<2>  subnet_word;
    bit<32> source;        // the word of both addresses under the mask
    bit<32> destination;

    /// A VM of the same VPC: the VNI is unchanged. `mask` is the mask of the subnet. Over IPv6, it
    /// is the mask of the 32-bit word in which the subnet's prefix ends; `word` is the number of
    /// this word from the left. All words before it belong to the prefix, and no word after it.
    action local(bit<32> mask, bit<2> word) {
        meta.scope = scope_t.local;
        meta.in_list = meta.vpc;
        meta.to_vni = hdr.vxlan.vni;
        subnet_mask = mask;
        subnet_word = word;
    }

    /// A VM of the VPC at the end of the chain of peerings. `acl` is the list of that VPC, or the
    /// combined list if the path has other VPCs. `refused` is the set of options and extension
    /// headers that these VPCs refuse.
    action peer(list_t acl, vni_t vni, extensions_t refused) {
        meta.scope = scope_t.peer;
        meta.in_list = acl;
        meta.to_vni = vni;
        meta.refused = meta.refused | refused;
    }

    /// As `peer`, between VPCs of which one limits the segments of its TCP connections. `mss` is the
    /// lower limit of both, over the IP version of the table.
    action peer_limited(list_t acl, vni_t vni, extensions_t refused, bit<16> mss) {
        meta.scope = scope_t.peer;
        meta.in_list = acl;
        meta.to_vni = vni;
        meta.refused = meta.refused | refused;
        meta.limits_mss = true;
        meta.mss_v4 = mss;
        meta.mss_v6 = mss;
    }

    /// The tenant's data centre, at a remote tunnel end point that expects `vni`. `transit` is the
    /// list of the VPCs on the path; NO_TRANSIT if there are none.
    action idc(remote_t remote, vni_t vni, transit_t transit) {
        meta.scope = scope_t.idc;
        meta.in_list = TRANSIT ++ transit;
        meta.remote = remote;
        meta.to_vni = vni;
    }

    /// A VPC in another region, at the gateway of that region, which expects `vni`.
    action cross_region(remote_t remote, vni_t vni, transit_t transit) {
        meta.scope = scope_t.cross_region;
        meta.in_list = TRANSIT ++ transit;
        meta.remote = remote;
        meta.to_vni = vni;
    }

    /// The address of a service of the VPC `vpc`, which has this VNI. `acl` is the list that decides
    /// about the packet when it has the address of a backend.
    action service(vpc_t vpc, list_t acl, vni_t vni) {
        meta.scope = scope_t.service;
        meta.in_list = acl;
        meta.to_vni = vni;
        meta.has_services = true;
        if (!meta.one_pass_only) {
            meta.service_vpc = vpc;
        }
    }

    action internet(transit_t transit) {
        meta.scope = scope_t.internet;
        meta.in_list = TRANSIT ++ transit;
    }

    /// Hosts with IPv4 alone, behind a prefix of IPv6. `nat64_source` says what stands for the VM. Both tables
    /// have the action, because a chip can have both in one memory.
    action nat64(transit_t transit) {
        internet(transit);
        if (!meta.one_pass_only) {
            meta.nat = nat_t.to_v4;
        }
    }

    action blackhole() {
        meta.scope = scope_t.blackhole;
    }

    action no_route() {
        drop_and_tell(hdr, meta, drop_reason_t.no_route, icmp_cause_t.no_route, 0);
    }

    table route_v4 {
        key = {
            meta.instance:              exact @name("instance");
            hdr.inner_ipv4.destination: lpm   @name("destination");
        }
        actions = {
            local; peer; peer_limited; idc; cross_region; internet; nat64; blackhole; service; no_route;
        }
        const default_action = no_route();
        size = 1048576;
    }

    table route_v6 {
        key = {
            meta.instance:              exact @name("instance");
            hdr.inner_ipv6.destination: lpm   @name("destination");
        }
        actions = {
            local; peer; peer_limited; idc; cross_region; internet; nat64; blackhole; service; no_route;
        }
        const default_action = no_route();
        size = 1048576;
    }

    apply {
        meta.hops = 1;
        if (hdr.inner_ipv4.isValid()) {
            route_v4.apply();
            source = hdr.inner_ipv4.source & subnet_mask;
            destination = hdr.inner_ipv4.destination & subnet_mask;
            if (meta.scope == scope_t.local && subnet_word == 0 && source == destination) {
                meta.hops = 0;
            }
        } else {
            route_v6.apply();
            if (subnet_word == 0) {
                source = hdr.inner_ipv6.source[127:96] & subnet_mask;
                destination = hdr.inner_ipv6.destination[127:96] & subnet_mask;
            } else if (subnet_word == 1) {
                source = hdr.inner_ipv6.source[95:64] & subnet_mask;
                destination = hdr.inner_ipv6.destination[95:64] & subnet_mask;
            } else if (subnet_word == 2) {
                source = hdr.inner_ipv6.source[63:32] & subnet_mask;
                destination = hdr.inner_ipv6.destination[63:32] & subnet_mask;
            } else {
                source = hdr.inner_ipv6.source[31:0] & subnet_mask;
                destination = hdr.inner_ipv6.destination[31:0] & subnet_mask;
            }
            if (meta.scope == scope_t.local && source == destination
                && (subnet_word == 0
                    || hdr.inner_ipv6.source[127:96] == hdr.inner_ipv6.destination[127:96])
                && (subnet_word <= 1
                    || hdr.inner_ipv6.source[95:64] == hdr.inner_ipv6.destination[95:64])
                && (subnet_word <= 2
                    || hdr.inner_ipv6.source[63:32] == hdr.inner_ipv6.destination[63:32])) {
                meta.hops = 0;
            }
        }
        route_scope.count((bit<8>) meta.scope);
        if (meta.scope == scope_t.blackhole) {
            drop(meta, drop_reason_t.blackhole_route);
        }
    }
}

#endif
