// SPDX-License-Identifier: Apache-2.0
//
// Headers that the gateway reads or writes, in the order of a packet, and their constants. Layer 4 has
// headers only over IPv4 without options, where a NAT can change it; elsewhere the parser looks ahead.

#ifndef GATEWAY_HEADERS_P4
#define GATEWAY_HEADERS_P4

#include "icmp_task.p4"

typedef bit<48>  mac_t;
typedef bit<32>  ipv4_t;
typedef bit<128> ipv6_t;
typedef bit<24>  vni_t;

const bit<16> ETHERTYPE_IPV4 = 0x0800;
const bit<16> ETHERTYPE_ARP  = 0x0806;
const bit<16> ETHERTYPE_VLAN = 0x8100;
const bit<16> ETHERTYPE_QINQ = 0x88a8;
const bit<16> ETHERTYPE_IPV6 = 0x86dd;
const bit<16> ETHERTYPE_LACP = 0x8809;
const bit<16> ETHERTYPE_EAPOL = 0x888e;
const bit<16> ETHERTYPE_LLDP = 0x88cc;

// IPv4 protocols and IPv6 next headers.
const bit<8> PROTOCOL_HOP_BY_HOP     = 0;
const bit<8> PROTOCOL_ICMP           = 1;
const bit<8> PROTOCOL_IPV4           = 4;
const bit<8> PROTOCOL_TCP            = 6;
const bit<8> PROTOCOL_UDP            = 17;
const bit<8> PROTOCOL_DCCP           = 33;
const bit<8> PROTOCOL_IPV6           = 41;
const bit<8> PROTOCOL_ROUTING        = 43;
const bit<8> PROTOCOL_IPV6_FRAG      = 44;
const bit<8> PROTOCOL_GRE            = 47;
const bit<8> PROTOCOL_ESP            = 50;
const bit<8> PROTOCOL_AUTHENTICATION = 51;
const bit<8> PROTOCOL_ICMPV6         = 58;
const bit<8> PROTOCOL_DESTINATION    = 60;
const bit<8> PROTOCOL_SCTP           = 132;
const bit<8> PROTOCOL_MOBILITY       = 135;
const bit<8> PROTOCOL_UDPLITE        = 136;
const bit<8> PROTOCOL_HIP            = 139;
const bit<8> PROTOCOL_SHIM6          = 140;

/// Bytes that an ICMP error quotes after the IP header (RFC 1812, section 4.3.2.3: as many as fit
/// in 576 bytes; RFC 4443 permits as many as fit in 1,280, of which no known receiver reads more
/// than these).
const bit<16> MAX_QUOTED = 512;

/// Types of ICMPv6 as `meta.l4_source` has them (RFC 4861, sections 4.3 and 4.4).
const bit<16> ND_SOLICITATION = 135;
const bit<8>  ND_ADVERTISEMENT = 136;

/// Kinds of TCP options (RFC 9293, section 3.2).
const bit<8> TCP_OPTION_END  = 0;
const bit<8> TCP_OPTION_NONE = 1;
const bit<8> TCP_OPTION_MSS  = 2;

/// Flags of TCP (RFC 9293, section 3.1).
const bit<8> TCP_FIN = 0x01;
const bit<8> TCP_SYN = 0x02;
const bit<8> TCP_RST = 0x04;
const bit<8> TCP_ACK = 0x10;

/// Types of ICMP (RFC 792): echo, and errors that quote a packet.
const bit<8> ICMP_ECHO_REPLY        = 0;
const bit<8> ICMP_UNREACHABLE       = 3;
const bit<8> ICMP_SOURCE_QUENCH     = 4;
const bit<8> ICMP_REDIRECT          = 5;
const bit<8> ICMP_ECHO_REQUEST      = 8;
const bit<8> ICMP_TIME_EXCEEDED     = 11;
const bit<8> ICMP_PARAMETER_PROBLEM = 12;

/// Types of ICMPv6 (RFC 4443): errors, and echo.
const bit<8> ICMPV6_UNREACHABLE       = 1;
const bit<8> ICMPV6_TOO_BIG           = 2;
const bit<8> ICMPV6_TIME_EXCEEDED     = 3;
const bit<8> ICMPV6_PARAMETER_PROBLEM = 4;
const bit<8> ICMPV6_ECHO_REQUEST      = 128;
const bit<8> ICMPV6_ECHO_REPLY        = 129;

/// RFC 7348, section 5.
const bit<16> UDP_PORT_VXLAN = 4789;

/// RFC 4271, section 8.
const bit<16> TCP_PORT_BGP = 179;

/// RFC 5881, section 4 (one hop, and its echo); RFC 5883, section 5; RFC 7130, section 2.2.
const bit<16> UDP_PORT_BFD          = 3784;
const bit<16> UDP_PORT_BFD_ECHO     = 3785;
const bit<16> UDP_PORT_BFD_MULTIHOP = 4784;
const bit<16> UDP_PORT_BFD_LAG      = 6784;

/// RFC 2131, section 4.1; RFC 8415, section 7.2.
const bit<16> UDP_PORT_DHCP_SERVER   = 67;
const bit<16> UDP_PORT_DHCP_CLIENT   = 68;
const bit<16> UDP_PORT_DHCPV6_CLIENT = 546;
const bit<16> UDP_PORT_DHCPV6_SERVER = 547;

/// RFC 7348, section 5: the I flag marks the VNI as valid. The other seven bits and both reserved
/// fields are sent as 0 and ignored on receipt.
const bit<8> VXLAN_FLAG_I = 0x08;

/// RFC 3168, section 5.
enum bit<2> ecn_t {
    not_ect = 0,
    ect_1   = 1,
    ect_0   = 2,
    ce      = 3
}

header ethernet_h {
    mac_t   destination;
    mac_t   source;
    bit<16> ether_type;
}

/// The rest of a VLAN tag (IEEE 802.1Q, section 9.6) behind `ether_type` of the Ethernet header.
header vlan_h {
    bit<4>  priority;   // priority and drop eligible
    bit<12> vid;
    bit<16> ether_type;
}

/// RFC 791. Options, if any, follow the header.
header ipv4_h {
    bit<4>  version;
    bit<4>  ihl;
    bit<6>  dscp;
    ecn_t   ecn;
    bit<16> total_length;
    bit<16> identification;
    bit<1>  reserved;
    bit<1>  dont_fragment;
    bit<1>  more_fragments;
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
    bit<6>  dscp;
    ecn_t   ecn;
    bit<20> flow_label;
    bit<16> payload_length;
    bit<8>  next_header;
    bit<8>  hop_limit;
    ipv6_t  source;
    ipv6_t  destination;
}

/// RFC 8200, section 4.5.
header ipv6_fragment_h {
    bit<8>  next_header;
    bit<8>  reserved;
    bit<13> fragment_offset;
    bit<2>  reserved_2;
    bit<1>  more_fragments;
    bit<32> identification;
}

/// RFC 768. `length` covers this header and the data after it, in bytes.
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

/// RFC 792, RFC 4443. `rest` depends on the type: the MTU of the next hop (RFC 1191, RFC 4443), or
/// 0.
header icmp_h {
    bit<8>  type;
    bit<8>  code;
    bit<16> checksum;
    bit<32> rest;
}

/// The first 8 bytes of UDP (RFC 768) or TCP. In TCP, `length` and `checksum` are the sequence number.
header l4_h {
    bit<16> source;
    bit<16> destination;
    bit<16> length;
    bit<16> checksum;
}

/// The 12 bytes behind `l4_h`: of TCP, or data of a UDP datagram that has as many.
header l4_rest_h {
    bit<32> acknowledgement;
    bit<4>  data_offset;
    bit<4>  reserved;
    bit<8>  flags;
    bit<16> window;
    bit<16> checksum;
    bit<16> urgent;
}

/// The first 8 bytes of ICMP, with the fields of an echo. In an error, both are unused, or the MTU.
header l4_icmp_h {
    bit<8>  type;
    bit<8>  code;
    bit<16> checksum;
    bit<16> identifier;
    bit<16> sequence;
}

/// ARP over Ethernet for IPv4 (RFC 826).
header arp_h {
    bit<16> hardware;          // 1: Ethernet
    bit<16> protocol;          // 0x0800: IPv4
    bit<8>  hardware_length;
    bit<8>  protocol_length;
    bit<16> operation;         // 1: request, 2: reply
    mac_t   sender_mac;
    ipv4_t  sender;
    mac_t   target_mac;
    ipv4_t  target;
}

/// Neighbour solicitation and advertisement after the ICMPv6 header (RFC 4861, sections 4.3 and 4.4).
header nd_h {
    ipv6_t target;
}

/// Option of neighbour discovery, or eight bytes of a longer one (RFC 4861, section 4.6).
header nd_option_h {
    bit<8>  type;      // 1: the link-layer address of the source, 2: of the target
    bit<8>  length;    // in units of 8 bytes, this one included
    bit<48> value;
}

/// RFC 9293, section 3.1. Options follow the header.
header tcp_h {
    bit<16> source;
    bit<16> destination;
    bit<32> sequence;
    bit<32> acknowledgement;
    bit<4>  data_offset;   // length of the header in units of 4 bytes
    bit<4>  reserved;
    bit<8>  flags;
    bit<16> window;
    bit<16> checksum;
    bit<16> urgent;
}

/// The MSS option (RFC 9293, section 3.7.1).
header tcp_mss_h {
    bit<8>  kind;
    bit<8>  length;
    bit<16> value;
}

/// Quoted bytes after the IP header. Each of these lengths occurs at most once, 256 twice, so that
/// any length up to 512 bytes is a sum of them, without a loop.
header quote_256_h { bit<2048> bytes; }
header quote_128_h { bit<1024> bytes; }
header quote_64_h  { bit<512>  bytes; }
header quote_32_h  { bit<256>  bytes; }
header quote_16_h  { bit<128>  bytes; }
header quote_8_h   { bit<64>   bytes; }
header quote_4_h   { bit<32>   bytes; }
header quote_2_h   { bit<16>   bytes; }
header quote_1_h   { bit<8>    bytes; }

/// At most one of each pair of IP headers is valid.
struct headers_t {
    icmp_task_h icmp_task;
    ethernet_h outer_ethernet;
    vlan_h     outer_vlan;
    ipv4_h     outer_ipv4;
    ipv6_h     outer_ipv6;
    udp_h      outer_udp;
    vxlan_h    vxlan;
    ethernet_h inner_ethernet;
    ipv4_h     inner_ipv4;
    ipv6_h     inner_ipv6;

    // Behind IPv6, only in a first fragment with TCP or ICMPv6 directly behind it.
    ipv6_fragment_h inner_fragment;

    // Layer 4 of IPv4 without options, also of a packet that is not in VXLAN: TCP and UDP, or ICMP.
    l4_h       l4;
    l4_rest_h  l4_rest;
    l4_icmp_h  l4_icmp;

    // Only of ARP on the underlay, and in the second pass of a request for the gateway's MAC address: the
    // request, or the answer.
    arp_h       arp;

    // Only in the second pass of a packet that causes an ICMP message: the message, and what an
    // error quotes, or the options of a neighbour solicitation.
    icmp_h      icmp;
    nd_h        nd;
    nd_option_h nd_option_0;
    nd_option_h nd_option_1;
    nd_option_h nd_option_2;
    nd_option_h nd_option_3;
    ipv4_h      quoted_ipv4;
    ipv6_h      quoted_ipv6;
    l4_h        quoted_l4;       // only in the first pass of an ICMP error, as are then the IP headers
    l4_icmp_h   quoted_echo;     //   before them
    quote_256_h quote_512;
    quote_256_h quote_256;
    quote_128_h quote_128;
    quote_64_h  quote_64;
    quote_32_h  quote_32;
    quote_16_h  quote_16;
    quote_8_h   quote_8;
    quote_4_h   quote_4;
    quote_2_h   quote_2;
    quote_1_h   quote_1;

    // The headers of a packet to or from a backend of a service, before their translation.
    ipv4_h      sent_ipv4;
    l4_h        sent_l4;
    l4_rest_h   sent_l4_rest;

    // Only in the second pass of a packet that opens a TCP connection. The headers of quotations
    // have the options between the two.
    tcp_h       tcp;
    tcp_mss_h   tcp_mss;
}

#endif
