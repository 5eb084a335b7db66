// SPDX-License-Identifier: Apache-2.0
//
// Headers of Ethernet, IPv4, UDP, TCP, ICMP, and of the packet that an ICMP error quotes.

#ifndef NAT_HEADERS_P4
#define NAT_HEADERS_P4

typedef bit<48> mac_t;
typedef bit<32> ipv4_t;

header ethernet_t {
    mac_t   destination;
    mac_t   source;
    bit<16> type;
}

header ipv4_header_t {
    bit<4>  version;
    bit<4>  ihl;
    bit<8>  dscp_ecn;
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

header udp_t {
    bit<16> source;
    bit<16> destination;
    bit<16> length;
    bit<16> checksum;
}

header tcp_t {
    bit<16> source;
    bit<16> destination;
    bit<32> sequence;
    bit<32> acknowledgement;
    bit<4>  data_offset;
    bit<7>  reserved;
    bit<1>  ack;
    bit<1>  psh;
    bit<1>  rst;
    bit<1>  syn;
    bit<1>  fin;
    bit<16> window;
    bit<16> checksum;
    bit<16> urgent;
}

header icmp_t {
    bit<8>  type;
    bit<8>  code;
    bit<16> checksum;
}

/// The second word of an echo request or reply.
header icmp_echo_t {
    bit<16> identifier;
    bit<16> sequence;
}

/// The second word of an error: unused, or the MTU.
header icmp_error_t {
    bit<32> rest;
}

/// The first 8 bytes of a quoted packet's payload, of which an error has at least these (RFC 792).
header quoted_ports_t {
    bit<16> source;
    bit<16> destination;
    bit<16> length;
    bit<16> checksum;
}

/// The same bytes of a quoted echo request or reply.
header quoted_echo_t {
    bit<8>  type;
    bit<8>  code;
    bit<16> checksum;
    bit<16> identifier;
    bit<16> sequence;
}

struct headers_t {
    ethernet_t     ethernet;
    ipv4_header_t  ipv4;
    udp_t          udp;
    tcp_t          tcp;
    icmp_t         icmp;
    icmp_echo_t    echo;
    icmp_error_t   unused;
    ipv4_header_t  quoted_ipv4;
    quoted_ports_t quoted_ports;
    quoted_echo_t  quoted_echo;
}

enum bit<8> drop_reason_t {
    none              = 0,
    malformed         = 1,  // ends before its headers, wrong version or length, IPv4 options
    not_ipv4          = 2,
    wrong_checksum    = 3,  // of the IPv4 header
    ttl_expired       = 4,  // no hop is left (RFC 1812, section 5.3.1)
    not_configured    = 5,  // the input port has no entry in `links`
    fragment          = 6,  // fragments have no ports
    other_protocol    = 7,  // neither TCP, UDP nor ICMP
    other_icmp        = 8,  // neither echo nor an error
    no_session        = 9,  // unasked packets from outside, and errors about other packets
    tcp_without_syn   = 10, // a TCP connection that began before the NAT
    no_free_block     = 11, // the pool has no block of ports for the subscriber
    port_quota        = 12, // the subscriber has as many ports as it may
    no_subscriber     = 13, // the source address has no number in the pool
    table_full        = 14, // `sessions` holds no further pair, or another entry has the port
    quoted_malformed  = 15  // the packet that an error quotes
}

struct metadata_t {
    drop_reason_t drop_reason;
    bit<16> port;            // of the side whose address is translated
    bit<16> remote_port;
    bit<1>  is_error;
    bit<1>  opens;           // a packet that may begin a session
}

#endif
