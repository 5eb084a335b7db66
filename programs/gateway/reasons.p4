// SPDX-License-Identifier: Apache-2.0
//
// Why a packet leaves the walk early. Names and numbers are part of the control-plane API: they
// show in counters, traces and metrics. A number stands for one reason, of either kind, and is
// never used again for another: 20 was that of inner IPv4 options, which pass, 49 and 50 those of
// ECMP groups and their buckets, which are next hops.

#ifndef GATEWAY_REASONS_P4
#define GATEWAY_REASONS_P4

enum bit<8> drop_reason_t {
    none                   = 0,

    // The underlay packet.
    underlay_truncated     = 1,    // ends before its headers, or before the length that they state
    underlay_ipv4_header   = 2,    // version isn't 4, IHL below 5, or total length below 20
    underlay_ipv4_checksum = 3,
    underlay_ipv6_header   = 4,    // version isn't 6
    underlay_not_ip        = 5,    // neither IP nor a control protocol that we know
    not_for_gateway        = 6,    // the outer destination isn't an address of ours
    underlay_fragment      = 7,    // RFC 7348, section 4.3: VXLAN packets aren't fragmented
    underlay_ipv4_options  = 8,    // UDP behind IPv4 options
    underlay_udp_length    = 9,    // UDP and IP lengths disagree
    vxlan_flag_i_clear     = 10,   // RFC 7348, section 5
    underlay_other_mac     = 11,   // the frame isn't to the MAC of the port (RFC 1812, section 5.3.4)
    unknown_source         = 12,   // VXLAN from an address that is no server's and no remote's
    parser_limit           = 15,   // any other error of the parser

    // The inner packet.
    inner_truncated        = 16,   // ends before its headers, or before the length that they state
    inner_not_ip           = 17,   // ARP, for instance: the vSwitch answers that
    inner_vlan_tag         = 18,   // RFC 7348, section 6.1
    inner_ipv4_header      = 19,   // version isn't 4, or IHL below 5
    inner_ipv4_checksum    = 21,
    inner_ipv6_header      = 22,   // version isn't 6
    inner_ipv6_extension   = 23,   // hop-by-hop options that aren't first, or a fragment of a fragment
    inner_length           = 24,   // lengths that can't hold what the headers promise
    inner_address          = 25,   // an address that must not be routed
    inner_ttl_expired      = 26,   // RFC 1812, section 5.3.1; RFC 8200, section 3
    ecn_ce_on_not_ect      = 27,   // RFC 6040, section 4.2
    inner_source_mac       = 28,   // the frame comes from a group address
    inner_other_mac        = 29,   // it isn't to the VPC's router, nor to the VM itself in one subnet
    inner_headers_too_long = 30,   // more than 64 bytes of options and extension headers before layer 4
    inner_source_route     = 31,   // a routing header of type 0 (RFC 5095)

    // The tenant's configuration.
    unknown_vni            = 32,
    no_route               = 33,
    blackhole_route        = 34,
    unknown_vm             = 35,
    unknown_remote         = 36,
    acl_denied_out         = 37,   // by the VPC that the packet comes from
    acl_denied_in          = 38,   // by the VPC that it goes to
    acl_denied_transit     = 39,   // by a VPC between those two, or whose exit it leaves by
    source_denied          = 40,   // the VPC takes none from this server or remote
    extension_denied       = 41,   // a VPC takes no options or extension headers of this kind

    // The way out.
    no_underlay_route      = 48,
    unknown_next_hop       = 51,
    exceeds_mtu            = 52,
    not_configured         = 53    // the gateway hasn't been told its own addresses
}

enum bit<8> punt_reason_t {
    none                   = 0,
    link_protocol          = 128,  // ARP, LLDP, LACP
    link_local             = 129,  // neighbour discovery, OSPF and others to link-local groups
    gateway_address        = 130,  // BGP, BFD, ping and all else to an address of ours, except VXLAN
    internet               = 131   // tenant traffic to the Internet, until there is NAT
}

#endif
