// SPDX-License-Identifier: Apache-2.0
//
// The order for an ICMP message: a header in front of the packet that causes it, which enters the
// main block a second time. It cannot come from outside, because only a second pass reads it
// (`istd.pass`).

#ifndef GATEWAY_ICMP_TASK_P4
#define GATEWAY_ICMP_TASK_P4

/// What the sender of a packet is told. The numbers are indices of the counter `icmp_sent`.
enum bit<8> icmp_cause_t {
    none          = 0,
    time_exceeded = 1,   // type 11 code 0, ICMPv6 3/0
    too_big       = 2,   // 3/4, 2/0
    no_route      = 3,   // 3/0, 1/0
    unknown_vm    = 4,   // 3/1, 1/3
    prohibited    = 5,   // 3/13, 1/1
    echo          = 6,   // not an error: the reply to an echo request, 0/0, 129/0
    neighbour     = 7,   // not an error: the gateway's MAC address, for ARP or 136/0
    tcp_mss       = 8,   // no message: the MSS of the packet itself is lowered to `mtu`
    no_service    = 9    // 3/3: no service has the port, or none of its backends takes connections
}

header icmp_task_h {
    icmp_cause_t  cause;
    bit<8>        protocol;       // of the dropped packet, after all extension headers
    bit<16>       mtu;            // for too_big: the longest inner packet that passes
    bit<2>        sender;         // sender_t
    bit<2>        fragment;       // fragment_t
    bit<20>       vpc;
    bit<24>       vni;
    bit<6>        dscp;           // outer, as received
    bit<1>        over_ipv6;      // whether `tunnel` is an IPv6 address
    bit<1>        reserved;
    bit<8>        l4_type;        // ICMP type of the dropped packet
    bit<128>      tunnel;         // outer source of the dropped packet; for tcp_mss: the flow hash
}

#endif
