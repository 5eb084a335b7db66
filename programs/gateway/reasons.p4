// SPDX-License-Identifier: Apache-2.0
//
// Reasons for drops and punts. Names and numbers are part of the control-plane API, because
// counters, traces and metrics show them. Drop and punt reasons share one set of numbers, and a
// number is never reused. 20 was the reason for inner IPv4 options, which now pass; 49 and 50 were
// the reasons for ECMP groups and their buckets, which are next hops now. 86 was a reason for
// fragments that 66 has now.

#ifndef GATEWAY_REASONS_P4
#define GATEWAY_REASONS_P4

enum bit<8> drop_reason_t {
    none                   = 0,

    // Underlay packet.
    underlay_truncated     = 1,    // ends before its headers, or before their stated length
    underlay_ipv4_header   = 2,    // version is not 4, IHL below 5, or total length below 20 bytes
    underlay_ipv4_checksum = 3,    // wrong checksum of the outer IPv4 header
    underlay_ipv6_header   = 4,    // version is not 6
    underlay_not_ip        = 5,    // neither IP nor a known control protocol
    not_for_gateway        = 6,    // the outer destination is not an address of the gateway
    underlay_fragment      = 7,    // VXLAN packets must not be fragmented (RFC 7348, section 4.3)
    underlay_ipv4_options  = 8,    // UDP after IPv4 options
    underlay_udp_length    = 9,    // the UDP length contradicts the IP length
    vxlan_flag_i_clear     = 10,   // the VXLAN header has no valid VNI (RFC 7348, section 5)
    underlay_other_mac     = 11,   // the frame is for another MAC (RFC 1812, section 5.3.4)
    unknown_source         = 12,   // VXLAN from an address of neither a server nor a remote
    underlay_other_vlan    = 63,   // the frame has a VLAN tag that no uplink of this port has
    nd_hop_limit           = 13,   // neighbour discovery that a router has forwarded (RFC 4861, 6.1)
    parser_limit           = 15,   // any other error of the parser

    // Inner packet.
    inner_truncated        = 16,   // ends before its headers, or before their stated length
    inner_not_ip           = 17,   // neither IPv4 nor IPv6, such as ARP, which the vSwitch answers
    inner_vlan_tag         = 18,   // the inner frame has a VLAN tag (RFC 7348, section 6.1)
    inner_ipv4_header      = 19,   // version is not 4, or IHL is below 5
    inner_ipv4_checksum    = 21,   // wrong checksum of the inner IPv4 header
    inner_ipv6_header      = 22,   // version is not 6
    inner_ipv6_extension   = 23,   // hop-by-hop options not first, or a fragment of a fragment
    inner_length           = 24,   // a length is too short for the headers
    inner_address          = 25,   // an address that must not be routed
    inner_ttl_expired      = 26,   // no hop is left (RFC 1812, section 5.3.1; RFC 8200, section 3)
    ecn_ce_on_not_ect      = 27,   // tunnel congestion, packet without ECN (RFC 6040, section 4.2)
    inner_source_mac       = 28,   // the source MAC is a group address
    inner_other_mac        = 29,   // for neither the VPC's router nor the VM in the same subnet
    inner_headers_too_long = 30,   // more than 64 bytes of options and extension headers before layer 4
    inner_source_route     = 31,   // a routing header of type 0 (RFC 5095)

    // Configuration of the tenant.
    unknown_vni            = 32,   // no VPC has this VNI
    no_route               = 33,   // no route of the routing instance matches
    blackhole_route        = 34,   // the route discards its packets
    unknown_vm             = 35,   // no server is known for the destination VM
    unknown_remote         = 36,   // the remote end point of the route does not exist
    acl_denied_out         = 37,   // denied by the VPC that sent the packet
    acl_denied_in          = 38,   // denied by the destination VPC
    acl_denied_transit     = 39,   // denied by a VPC between those two, or by the VPC of the exit
    source_denied          = 40,   // the VPC does not accept packets from this server or remote
    extension_denied       = 41,   // a VPC refuses these options or extension headers
    acl_rejected_out       = 42,   // as acl_denied_out, by a rule that tells the sender
    acl_rejected_in        = 43,   // as acl_denied_in, by a rule that tells the sender
    acl_rejected_transit   = 44,   // as acl_denied_transit, by a rule that tells the sender

    // Egress path.
    no_underlay_route      = 48,   // no underlay route matches the outer destination
    unknown_next_hop       = 51,   // the next hop of the underlay route does not exist
    exceeds_mtu            = 52,   // longer than the MTU of the output port
    not_configured         = 53,   // the gateway has no addresses of its own configured
    neighbour_unresolved   = 54,   // the MAC address of the next hop is not known yet
    path_down              = 55,   // the link of the next hop is down, and no other path is left

    // ICMP messages that were not sent. The packet that causes an error counts under its own reason
    // besides.
    icmp_limited           = 56,   // an ICMP message: the VM or the VPC has caused too many
    icmp_forbidden         = 57,   // an ICMP error that must not be sent (RFC 1812, RFC 4443)
    gateway_closed         = 58,   // to the gateway's address in a subnet, other than an echo request

    // Requests for the gateway's MAC address in a VPC, where it answers them.
    neighbour_other        = 59,   // ARP or a neighbour solicitation for an address of another
    neighbour_invalid      = 60,   // opcode, length or option of a request (RFC 826; RFC 4861, 7.1.1)
    neighbour_checksum     = 61,   // wrong checksum of a neighbour solicitation
    neighbour_conflict     = 62,   // a VM announces the gateway's address as its own (RFC 5227)

    // To and from the Internet.
    no_nat                 = 64,   // the VPC has a NAT, but not for this source
    nat_destination        = 65,   // to the operator's own network, or a private address
    nat_protocol           = 67,   // of a NAT neither TCP, UDP, echo nor error; AH, redirects; IPv4 options
    nat_quote              = 68,   // an ICMP error whose quoted packet is malformed, of another, or has options
    no_session             = 69,   // from the Internet, unasked, or an error about another packet
    tcp_without_syn        = 70,   // TCP without a session or a tracked flow, other than the first packet
    nat_no_ports           = 71,   // no block of ports is free at the VM's public address
    nat_quota              = 72,   // the VM has as many ports as it may
    nat_table_full         = 73,   // no further session has room, or another one has the port

    // To and from the Internet over IPv6.
    internet_unasked       = 74,   // from the Internet, and no answer to a flow of a VM; the VPC takes no others
    internet_source        = 75,   // a VM's source in no prefix of its VPC; from the Internet, one of its VMs
    npt_address            = 76,   // an address that NPTv6 cannot translate (RFC 6296, sections 3.4 to 3.7)

    // Between VMs with IPv6 and hosts with IPv4 (NAT64).
    nat64_address          = 96,   // an IPv4 address behind the prefix that no host of the Internet has (RFC 6052, 3.1)
    nat64_checksum         = 97,   // UDP without a checksum (RFC 7915, section 4.5)
    nat64_icmp             = 98,   // an ICMP error that the other version of IP lacks (RFC 7915, sections 4.2 and 5.2)
    nat64_fragment         = 99,   // a fragment

    // Fragments, where ports decide: security groups, services, and to and from the Internet.
    fragment_unknown       = 66,   // a later fragment before the first one of its datagram, or 30 s after it
    fragment_header        = 77,   // of TCP that cuts or changes its header, or a second first one with other ports
    fragment_quota         = 78,   // no further datagram has room, or its VPC or public address has as many as it may

    // Security groups.
    group_quota            = 79,   // the VPC has as many flows as it may
    group_denied_out       = 80,   // no rule of the sender's groups permits the flow
    group_denied_in        = 81,   // no rule of the receiver's groups permits the flow
    group_unasked          = 82,   // an echo reply without a request
    group_flow_ended       = 83,   // the rules no longer permit the packet's flow
    group_table_full       = 84,   // no further flow has room
    group_error            = 85,   // an ICMP error about no tracked flow, or with a malformed quotation
    group_port_0           = 87,   // port 0
    group_headers          = 88,   // TCP or ICMP cut off, or behind options or extension headers

    // Services.
    service_port           = 89,   // to the address of a service, and a port that no service has
    service_no_backend     = 90,   // no backend of the service takes new connections
    service_backend_down   = 91,   // from a backend that is down, or about a packet to it
    service_own_backend    = 92,   // the client is the only backend of the service
    service_unasked        = 93,   // TCP without a connection, other than SYN; an answer or error without one
    service_table_full     = 94,   // no further connection has room
    service_quota          = 95    // the VPC has as many connections to its services as it may
}

enum bit<8> punt_reason_t {
    none                   = 0,
    link_protocol          = 128,  // LLDP, LACP, EAPOL
    link_local             = 129,  // others to link-local groups: OSPF, VRRP, IGMP, MLD
    gateway_address        = 130,  // others to an address of the gateway
    internet               = 131,  // to the Internet from a VPC without a way there; on a switch all, and to public addresses
    arp                    = 132,
    nd                     = 133,  // neighbour and router discovery (RFC 4861)
    bgp                    = 134,  // TCP port 179
    bfd                    = 135,  // RFC 5881, RFC 5883, RFC 7130
    dhcp                   = 136,  // DHCP, DHCPv6
    icmp                   = 137,  // ICMP and ICMPv6 messages that are no errors, such as echo
    icmp_error             = 138,  // ICMP and ICMPv6 errors, such as packet too big
    neighbour              = 139,  // a VM asks for the gateway's MAC, from a switch, which cannot answer
    tcp_mss                = 140,  // TCP with SYN of a VPC with a limit, from a switch, which reads no options
    vlan                   = 141,  // a frame with a VLAN tag, from a switch, which has no entries of VLANs
    services               = 144,  // to a service, or of a VPC with services, from a switch, which has no connections
    security_groups        = 143   // of a VPC with security groups, from a switch, which tracks no flows
}

#endif
