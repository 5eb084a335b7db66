// SPDX-License-Identifier: Apache-2.0
//
// Headers of Ethernet, IPv4, UDP and TCP, and the metadata and drop reasons of all middleboxes.

#ifndef MIDDLEBOXES_HEADERS_P4
#define MIDDLEBOXES_HEADERS_P4

typedef bit<48> mac_t;
typedef bit<32> ipv4_t;

const bit<16> ETHERTYPE_IPV4 = 0x0800;
const bit<8> PROTOCOL_TCP = 6;
const bit<8> PROTOCOL_UDP = 17;

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

struct headers_t {
    ethernet_t    ethernet;
    ipv4_header_t ipv4;
    udp_t         udp;
    tcp_t         tcp;
}

enum bit<8> drop_reason_t {
    none            = 0,
    malformed       = 1,  // ends before its headers, or has a wrong version or length
    not_ipv4        = 2,
    ip_options      = 3,  // IPv4 options
    wrong_checksum  = 4,  // of the IPv4 header
    fragment        = 5,  // later fragments have no ports
    ttl_expired     = 6,  // no hop is left (RFC 1812, section 5.3.1)
    other_protocol  = 7,  // neither TCP nor UDP
    not_configured  = 8,  // the input port has no entry in `links`
    not_allowed     = 9,  // firewall: no entry has the 5-tuple
    no_service      = 10, // load balancer: no virtual address has the destination and port
    no_backend      = 11, // load balancers: the bucket or number has no backend
    no_connection   = 12, // load balancer: a backend began it, or its connection has ended
    tcp_without_syn = 13, // load balancer: a TCP connection that began elsewhere
    table_full      = 14  // no further entry, or another connection has the key
}

struct metadata_t {
    drop_reason_t drop_reason;
    bit<1>  is_outbound;      // 1 for a packet from inside
    bit<16> source_port;
    bit<16> destination_port;
    bool    is_first;         // the packet may begin a flow: UDP, or the SYN of a TCP connection
}

#endif
