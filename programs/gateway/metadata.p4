// SPDX-License-Identifier: Apache-2.0
//
// What the steps tell each other about a packet. Each field names the step that writes it.

#ifndef GATEWAY_METADATA_P4
#define GATEWAY_METADATA_P4

#include "headers.p4"
#include "reasons.p4"

/// A VPC, numbered densely from 0 by the control plane so that it can index counters. A VPC has
/// one VNI, which is what packets carry.
typedef bit<20> vpc_t;

/// A routing table. A VPC has one that it uses by default, and any number that its policy routes
/// refer to.
typedef bit<24> instance_t;

typedef bit<16> remote_t;
typedef bit<16> next_hop_t;
typedef bit<16> ecmp_group_t;

/// How far away a route leads. The numbers are indices of the counter `route_scope`.
enum bit<8> scope_t {
    none         = 0,
    local        = 1,   // a VM of the same VPC
    peer         = 2,   // a VM of another VPC of this region
    idc          = 3,   // the tenant's own data centre
    cross_region = 4,   // a VPC in another region
    internet     = 5,
    blackhole    = 6
}

/// Which part of its datagram the inner packet is.
enum bit<2> fragment_t {
    whole = 0,   // not a fragment
    first = 1,   // has the layer 4 header, but more fragments follow
    later = 2    // has no layer 4 header
}

struct metadata_t {
    // verdicts: why the packet was dropped or handed to the CPU. Engines find the reason that they
    // show in traces and metrics by these names (see pna.p4).
    drop_reason_t drop_reason;
    punt_reason_t punt_reason;

    // parser: the inner flow.
    bit<8>        protocol;        // IPv4 protocol or IPv6 next header; behind a fragment header, too
    bit<16>       l4_source;       // TCP/UDP port; ICMP type; else, and for later fragments, 0
    bit<16>       l4_destination;  // TCP/UDP port; ICMP code; else, and for later fragments, 0
    fragment_t    fragment;

    // vxlan_checks: what the old outer header leaves to the new one.
    bit<6>        outer_dscp;
    ecn_t         outer_ecn;

    // tenant, policy_routing, routing.
    vpc_t         vpc;             // that the packet comes from
    instance_t    instance;        // where its destination is looked up
    scope_t       scope;
    vpc_t         to_vpc;          // that it goes to; only for scopes local and peer
    vni_t         to_vni;          // that it carries when it leaves
    remote_t      remote;          // only for scopes idc and cross_region

    // flow_hash, underlay.
    bit<32>       flow_hash;
    ecmp_group_t  ecmp_group;
    next_hop_t    next_hop;
}

#endif
