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

/// A list of ACL rules. A VPC's own has the VPC's number; those of ways through other VPCs have
/// numbers that are no VPC's, because their first four bits are TRANSIT.
typedef bit<20> list_t;
typedef bit<16> transit_t;

const bit<4> TRANSIT = 0xf;

/// The list that has no rules, and so permits all.
const transit_t NO_TRANSIT = 0xffff;

/// A routing table. A VPC has one that it uses by default, and any number that its policy routes
/// refer to.
typedef bit<24> instance_t;

typedef bit<16> remote_t;
typedef bit<24> next_hop_t;

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

/// At which end of a tunnel the packet was sent.
enum bit<2> sender_t {
    unknown = 0,
    server  = 1,   // by a VM
    remote  = 2    // outside of the region's VPCs
}

/// Which part of its datagram the inner packet is.
enum bit<2> fragment_t {
    whole = 0,   // not a fragment
    first = 1,   // has the layer 4 header, but more fragments follow
    later = 2    // has no layer 4 header
}

/// Kinds of what lies between IP and layer 4, a bit for each: those that a packet has, or that a
/// VPC refuses.
typedef bit<8> extensions_t;

const extensions_t EXTENSION_IPV4_OPTIONS   = 0x01;
const extensions_t EXTENSION_HOP_BY_HOP     = 0x02;
const extensions_t EXTENSION_DESTINATION    = 0x04;
const extensions_t EXTENSION_ROUTING        = 0x08;
const extensions_t EXTENSION_AUTHENTICATION = 0x10;
const extensions_t EXTENSION_MOBILITY       = 0x20;
const extensions_t EXTENSION_HIP            = 0x40;
const extensions_t EXTENSION_SHIM6          = 0x80;

struct metadata_t {
    // verdicts: why the packet was dropped or handed to the CPU. Engines find the reason that they
    // show in traces and metrics by these names (see pna.p4).
    drop_reason_t drop_reason;
    punt_reason_t punt_reason;

    // parser: whether the frame has bytes behind the outer packet, and the inner flow.
    bool          trailer;
    bit<8>        protocol;        // IPv4 protocol or IPv6 next header, behind all extension headers
    bit<16>       l4_source;       // port; ICMP type; else, and for later fragments, 0
    bit<16>       l4_destination;  // port; ICMP code; else, and for later fragments, 0
    fragment_t    fragment;
    extensions_t  extensions;      // what lies between IP and layer 4

    // vxlan_checks: what the old outer header leaves to the new one.
    bit<6>        outer_dscp;
    ecn_t         outer_ecn;

    // classify.
    sender_t      sender;

    // tenant, policy_routing, routing.
    vpc_t         vpc;             // that the packet comes from
    instance_t    instance;        // where its destination is looked up
    extensions_t  refused;         // by either VPC
    scope_t       scope;
    list_t        in_list;         // that decides besides the VPC's own
    vni_t         to_vni;          // that it carries when it leaves
    remote_t      remote;          // only for scopes idc and cross_region
    bit<8>        hops;            // that the way takes: 0 within a subnet, else 1

    // vm_nc, remote.
    mac_t         far_mac;         // that the tenant's frame is sent to

    // flow_hash, underlay.
    bit<32>       flow_hash;
    next_hop_t    next_hop;
}

#endif
