// SPDX-License-Identifier: Apache-2.0
//
// Headers of VXLAN over IPv4 with IPv4 inside, in the order of a packet, and the results of the
// parser.

#ifndef OVERLAY_HEADERS_P4
#define OVERLAY_HEADERS_P4

typedef bit<48> mac_t;
typedef bit<32> ipv4_t;
typedef bit<24> vni_t;

const bit<16> ETHERTYPE_IPV4 = 0x0800;
const bit<8>  PROTOCOL_TCP   = 6;
const bit<8>  PROTOCOL_UDP   = 17;

/// RFC 7348, section 5.
const bit<16> UDP_PORT_VXLAN = 4789;

/// RFC 7348, section 5: the I flag marks the VNI as valid.
const bit<8> VXLAN_FLAG_I = 0x08;

/// Reasons for drops. Names and numbers are part of the control-plane API.
enum bit<8> drop_reason_t {
    none                = 0,
    malformed           = 1,   // a broken header, or contradictory lengths
    not_vxlan_with_ipv4 = 2,   // not IPv4 in VXLAN over IPv4
    inner_ttl_expired   = 3,   // no hop is left (RFC 1812, section 5.3.1)
    no_route            = 4,
    unknown_vm          = 5,
    not_configured      = 6    // the control plane has set no uplink
}

header ethernet_h {
    mac_t   destination;
    mac_t   source;
    bit<16> ether_type;
}

/// RFC 791, without options.
header ipv4_h {
    bit<4>  version;
    bit<4>  ihl;
    bit<8>  dscp_ecn;
    bit<16> total_length;
    bit<16> identification;
    bit<16> flags_offset;
    bit<8>  ttl;
    bit<8>  protocol;
    bit<16> checksum;
    ipv4_t  source;
    ipv4_t  destination;
}

/// RFC 768.
header udp_h {
    bit<16> source;
    bit<16> destination;
    bit<16> length;
    bit<16> checksum;
}

/// RFC 7348.
header vxlan_h {
    bit<8>  flags;
    bit<24> reserved;
    vni_t   vni;
    bit<8>  reserved_2;
}

struct headers_t {
    ethernet_h outer_ethernet;
    ipv4_h     outer_ipv4;
    udp_h      outer_udp;
    vxlan_h    vxlan;
    ethernet_h inner_ethernet;
    ipv4_h     inner_ipv4;
}

struct metadata_t {
    drop_reason_t drop_reason;
    bit<32>       ports;   // ports of TCP or UDP, source first; otherwise, and for fragments, 0
}

#endif
