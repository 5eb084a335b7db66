// SPDX-License-Identifier: Apache-2.0
//
// Headers of a packet, and data that tables exchange. All five pipelines share this file.

#ifndef VSWITCH_HEADERS_P4
#define VSWITCH_HEADERS_P4

typedef bit<48> mac_t;
typedef bit<32> ipv4_t;
typedef bit<128> ipv6_t;
typedef bit<12> vlan_t;
typedef bit<20> label_t;

/// Number of a table, as the controller of the published pipeline numbers it.
typedef bit<8> table_t;

/// No table: the processing ends.
const table_t END = 255;

const bit<16> ETHERTYPE_IPV4 = 0x0800;
const bit<16> ETHERTYPE_ARP  = 0x0806;
const bit<16> ETHERTYPE_VLAN = 0x8100;
const bit<16> ETHERTYPE_IPV6 = 0x86dd;
const bit<16> ETHERTYPE_MPLS = 0x8847;
const bit<8>  PROTOCOL_TCP   = 6;
const bit<8>  PROTOCOL_UDP   = 17;

/// RFC 826: operation of a reply.
const bit<16> ARP_REPLY = 2;

/// Reasons for drops. Names and numbers are part of the control-plane API.
enum bit<8> drop_reason_t {
    none        = 0,
    malformed   = 1,   // a truncated header
    ttl_expired = 2,   // no hop is left (RFC 1812, section 5.3.1)
    policy      = 3,   // denied by an entry
    no_entry    = 4    // no entry in a table that requires one
}

/// Reasons for packets to the controller.
enum bit<8> punt_reason_t {
    none     = 0,
    protocol = 16,     // control traffic, as an entry requests
    station  = 17      // a station without an entry
}

header ethernet_h {
    mac_t   destination;
    mac_t   source;
    bit<16> ether_type;
}

/// IEEE 802.1Q.
header vlan_h {
    bit<3>  priority;
    bit<1>  drop_eligible;
    vlan_t  vid;
    bit<16> ether_type;
}

/// RFC 3032.
header mpls_h {
    label_t label;
    bit<3>  traffic_class;
    bit<1>  bottom;
    bit<8>  ttl;
}

/// RFC 826, for IPv4 over Ethernet.
header arp_h {
    bit<16> hardware_type;
    bit<16> protocol_type;
    bit<8>  hardware_length;
    bit<8>  protocol_length;
    bit<16> operation;
    mac_t   sender_mac;
    ipv4_t  sender;
    mac_t   target_mac;
    ipv4_t  target;
}

/// RFC 791, without options.
header ipv4_h {
    bit<4>  version;
    bit<4>  ihl;
    bit<8>  dscp_ecn;
    bit<16> total_length;
    bit<16> identification;
    bit<3>  flags;
    bit<13> fragment_offset;
    bit<8>  ttl;
    bit<8>  protocol;
    bit<16> checksum;
    ipv4_t  source;
    ipv4_t  destination;
}

/// RFC 8200.
header ipv6_h {
    bit<4>  version;
    bit<8>  traffic_class;
    bit<20> flow_label;
    bit<16> payload_length;
    bit<8>  next_header;
    bit<8>  hop_limit;
    ipv6_t  source;
    ipv6_t  destination;
}

/// First bytes of TCP and UDP.
header ports_h {
    bit<16> source;
    bit<16> destination;
}

struct headers_t {
    ethernet_h ethernet;
    vlan_h     vlan;
    mpls_h     mpls_outer;
    mpls_h     mpls_inner;
    arp_h      arp;
    ipv4_h     ipv4;
    ipv6_h     ipv6;
    ports_h    l4;
}

struct metadata_t {
    drop_reason_t drop_reason;
    punt_reason_t punt_reason;
    vlan_t        vlan;       // 0 without a tag
    bit<16>       eth_type;   // EtherType after the VLAN tag
    bool          expired;    // no hop is left: TTL or hop limit is 0 or 1
    table_t       next;       // next table of the packet
    PortId_t      out_port;   // output port chosen so far
}

#endif
