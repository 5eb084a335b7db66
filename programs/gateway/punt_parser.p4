// SPDX-License-Identifier: Apache-2.0
//
// States of the parser that find the kind of a packet for the gateway itself. They are part of
// `gateway_parser`, which includes this file. `punt` uses the kind; a packet in VXLAN passes none of
// these states.

#ifndef GATEWAY_PUNT_PARSER_P4
#define GATEWAY_PUNT_PARSER_P4

    state outer_udp_kind {   // kinds of packets for the gateway itself
        transition select(hdr.outer_udp.destination) {
            UDP_PORT_BFD .. UDP_PORT_BFD_ECHO:                kind_bfd;
            UDP_PORT_BFD_MULTIHOP:                            kind_bfd;
            UDP_PORT_BFD_LAG:                                 kind_bfd;
            UDP_PORT_DHCP_SERVER .. UDP_PORT_DHCP_CLIENT:     kind_dhcp;
            UDP_PORT_DHCPV6_CLIENT .. UDP_PORT_DHCPV6_SERVER: kind_dhcp;
            default:                                          accept;
        }
    }

    state outer_tcp {
        bit<32> tcp_ports = packet.lookahead<bit<32>>();
        transition select(tcp_ports[31:16], tcp_ports[15:0]) {
            (TCP_PORT_BGP, _): kind_bgp;
            (_, TCP_PORT_BGP): kind_bgp;
            default:           accept;
        }
    }

    state outer_icmp {   // RFC 792
        transition select(packet.lookahead<bit<8>>()) {
            3:        kind_icmp_error;
            11 .. 12: kind_icmp_error;
            default:  kind_icmp;
        }
    }

    state outer_icmpv6 {   // RFC 4443, section 2.1; RFC 4861, section 4
        transition select(packet.lookahead<bit<8>>()) {
            0 .. 127:   kind_icmp_error;
            133 .. 137: kind_nd;
            default:    kind_icmp;
        }
    }

    state kind_vlan          { meta.punt_kind = punt_reason_t.vlan; transition accept; }
    state kind_link_protocol { meta.punt_kind = punt_reason_t.link_protocol; transition accept; }
    state kind_arp {
        meta.punt_kind = punt_reason_t.arp;
        transition select(meta.one_pass_only) {
            false:   arp_length;
            default: accept;
        }
    }

    // 14 bytes Ethernet, 28 ARP; 4 for a VLAN tag.
    state arp_length {
        transition select(hdr.outer_vlan.isValid(), packet.length() >= 42, packet.length() >= 46) {
            (false, true, _): arp_header;
            (_, _, true):     arp_header;
            default:          accept;
        }
    }

    state arp_header {
        packet.extract(hdr.arp);
        transition accept;
    }

    state kind_nd            { meta.punt_kind = punt_reason_t.nd; transition accept; }
    state kind_bgp           { meta.punt_kind = punt_reason_t.bgp; transition accept; }
    state kind_bfd           { meta.punt_kind = punt_reason_t.bfd; transition accept; }
    state kind_dhcp          { meta.punt_kind = punt_reason_t.dhcp; transition accept; }
    state kind_icmp          { meta.punt_kind = punt_reason_t.icmp; transition accept; }
    state kind_icmp_error    { meta.punt_kind = punt_reason_t.icmp_error; transition accept; }

#endif
