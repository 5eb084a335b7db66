// SPDX-License-Identifier: Apache-2.0
//
// Data that the steps exchange about a packet. Each group names the steps that write it.

#ifndef GATEWAY_METADATA_P4
#define GATEWAY_METADATA_P4

#include "headers.p4"
#include "reasons.p4"

/// A VPC. The control plane numbers VPCs densely from 0, because the number is a counter index.
/// Packets carry the VNI of the VPC.
typedef bit<20> vpc_t;

/// An access list. The list of a VPC has the VPC's number. Lists of paths through other VPCs have
/// numbers that no VPC has, because their upper four bits are TRANSIT.
typedef bit<20> list_t;
typedef bit<16> transit_t;

const bit<4> TRANSIT = 0xf;

/// The list without rules, which permits all packets.
const transit_t NO_TRANSIT = 0xffff;

/// A routing table. A VPC has one default instance and any number of instances that its policy
/// routes select.
typedef bit<24> instance_t;

typedef bit<16> remote_t;
typedef bit<24> next_hop_t;

/// Pass of a packet that was received. Only a packet that causes an ICMP error has another one.
const PassNumber_t FIRST_PASS = (PassNumber_t) (PassNumberUint_t) 0;

/// Scope of a route. The numbers are indices of the counter `route_scope`.
enum bit<8> scope_t {
    none         = 0,
    local        = 1,   // a VM of the same VPC
    peer         = 2,   // a VM of another VPC of this region
    idc          = 3,   // the tenant's own data centre
    cross_region = 4,   // a VPC in another region
    internet     = 5,
    blackhole    = 6,
    service      = 7    // the address of a service, for which backends answer
}

/// Kind of tunnel end point that sent the packet.
enum bit<2> sender_t {
    unknown = 0,
    server  = 1,   // a VM sent the packet
    remote  = 2    // outside of the region's VPCs
}

/// Fragment state of the inner packet.
enum bit<2> fragment_t {
    whole = 0,   // not a fragment
    first = 1,   // has the layer 4 header; more fragments follow
    later = 2,   // has no layer 4 header
    known = 3    // a later one that has the ports of the first one (fragments.p4)
}

/// Direction of a packet whose address is translated.
enum bit<3> nat_t {
    none       = 0,
    outbound   = 1,   // from a VM to the Internet
    inbound    = 2,
    to_service = 3,   // to the address of a service, from a VM or a data centre
    answer     = 4,   // from a port of a backend, to a VM or a data centre
    to_v4      = 5    // from a VM, over IPv6, to a host with IPv4; `outbound` from nat_source on
}

/// What decides about the translation of an address.
enum bit<3> nat_kind_t {
    session      = 0,   // an entry that the first packet of a flow adds
    forward      = 1,   // a port forward, if there is one; otherwise a session
    only_forward = 2,   // a port forward, if there is one; the VPC has no NAT
    elastic      = 3,   // the VM has a public address of its own
    service      = 4,   // a connection to a service
    answer       = 5,   // a connection to a service, by an answer of its backend
    routed       = 6,   // over IPv6: no session, and no address or one that is computed
    nat64        = 7    // a session of a VM with IPv6
}

/// A limit of TCP segments that is none.
const bit<16> NO_MSS_LIMIT = 0xffff;

/// Kinds of headers between IP and layer 4, one bit each: the set that a packet has, or that a VPC
/// refuses.
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
    // Verdicts: the reasons for a drop or a punt. Engines find the reason for traces and metrics by
    // these field names (see pna.p4).
    drop_reason_t drop_reason;
    punt_reason_t punt_reason;

    // Whether the tier has one pass of packets: a switch. The program only reads it. The version of
    // the program for a switch has true in its place (see pna.p4), and no code of other tiers.
    bool          one_pass_only;

    // parser: the kind of a packet for the gateway itself (none: no kind of its own), whether the
    // frame has bytes after the outer packet, and the inner flow.
    punt_reason_t punt_kind;
    bool          trailer;
    bit<8>        protocol;        // IPv4 protocol or IPv6 next header, after all extension headers
    bit<16>       l4_source;       // port or ICMP type; otherwise, and for later fragments not known, 0
    bit<16>       l4_destination;  // port or ICMP code; otherwise, and for later fragments not known, 0
    fragment_t    fragment;
    extensions_t  extensions;      // headers between IP and layer 4
    bool          opens_tcp;       // TCP with SYN, directly after the IP header

    // parser, only of fragments over IPv6 whose fragment header is directly behind the IP header.
    bit<32>       identification;
    bit<13>       fragment_offset;  // in units of 8 bytes
    bool          is_last_fragment;

    // vxlan_checks: fields of the received outer header for the new one.
    bit<6>        outer_dscp;
    ecn_t         outer_ecn;

    // inner_checks: ARP, or a neighbour solicitation with addresses that are not routed.
    bool          asks_neighbour;

    // classify.
    sender_t      sender;
    bool          to_router_address;  // to an address of the gateway without tunnels
    bool          from_internet;      // to a public address, and not in VXLAN

    // parser, vm_nc, remote: outer source of a packet that can change its underlay family, for an
    // ICMP error about it. 0 in `tunnel_v6`: the packet came over IPv4.
    ipv6_t        tunnel_v6;
    ipv4_t        tunnel_v4;

    // tenant, policy_routing, routing.
    vpc_t         vpc;             // source VPC
    instance_t    instance;        // routing instance for the lookup of the destination
    extensions_t  refused;         // by either VPC
    bool          answers_neighbours;  // the gateway answers ARP and neighbour solicitations
    bool          limits_mss;      // one of both VPCs has a limit of TCP segments, in bytes:
    bit<16>       mss_v4;          //   over IPv4
    bit<16>       mss_v6;          //   over IPv6
    bool          has_groups;      // the VPC has security groups, or peerings connect it with one that has
    bool          has_services;    // the VPC has services, or the packet is for one
    vpc_t         service_vpc;     // of the service that the packet is for
    scope_t       scope;
    list_t        in_list;         // list that decides after the source VPC's list
    vni_t         to_vni;          // VNI of the sent packet
    remote_t      remote;          // only for scopes idc and cross_region
    bit<8>        hops;            // hops of the path: 0 within a subnet, otherwise 1

    // fragments, only of fragments: whether the ports are those of all fragments of the datagram, its
    // identifier of ICMP, and its identification where several VMs have one address.
    bool          has_datagram;
    bit<16>       identifier;
    bit<16>       sent_identification;

    // routing (only `to_v4`), nat_source, nat_arrival, gateway.
    nat_t         nat;

    // vm_nc, remote.
    mac_t         far_mac;         // destination MAC of the tenant's frame

    // flow_hash, underlay.
    bit<32>       flow_hash;
    bit<32>       hash_secret;     // only for the choice of backends
    next_hop_t    next_hop;
    bit<12>       vid;             // VLAN of the sent frame; 0: no tag

    // Second pass: bytes quoted after the IP header, or bytes of TCP options before the MSS.
    bit<16>       quoted;
}

#endif
