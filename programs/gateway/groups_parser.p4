// SPDX-License-Identifier: Apache-2.0
//
// States of the parser for layer 4 directly behind IPv6: flags, identifiers and quotes, which security
// groups need, and ports and checksums, which NAT64 changes. `gateway_parser` includes this file. A switch
// has none of these headers: it reads ports, type and code.

#ifndef GATEWAY_GROUPS_PARSER_P4
#define GATEWAY_GROUPS_PARSER_P4

    // One path for both, as over IPv4.
    state inner_ipv6_tcp_or_udp {
        transition select(meta.one_pass_only) {
            false:   inner_ipv6_layer_4;
            default: ports;
        }
    }

    state inner_ipv6_layer_4 {
        transition select(hdr.inner_ipv6.payload_length >= 20) {
            true:    inner_long_layer_4;   // nat_parser.p4
            default: inner_ipv6_short_layer_4;
        }
    }

    state inner_ipv6_short_layer_4 {
        transition select(hdr.inner_ipv6.payload_length >= 8, meta.protocol) {
            (true, PROTOCOL_UDP): inner_short_header;
            default:              ports;
        }
    }

    state inner_icmpv6 {
        transition select(hdr.inner_ipv6.payload_length >= 8) {
            true:    inner_icmpv6_header;
            default: icmp;
        }
    }

    state inner_icmpv6_header {
        packet.extract(hdr.l4_icmp);
        meta.l4_source = (bit<16>) hdr.l4_icmp.type;
        meta.l4_destination = (bit<16>) hdr.l4_icmp.code;
        transition select(hdr.inner_ipv6.payload_length >= 56, hdr.l4_icmp.type) {
            (true, ICMPV6_UNREACHABLE .. ICMPV6_PARAMETER_PROBLEM): quote_of_icmpv6_error;
            default:                                                accept;
        }
    }

    // With 8 bytes of layer 4, as those of IPv4 (nat_parser.p4).
    state quote_of_icmpv6_error {
        packet.extract(hdr.quoted_ipv6);
        transition select(hdr.quoted_ipv6.next_header) {
            PROTOCOL_TCP:     quoted_l4;
            PROTOCOL_UDP:     quoted_l4;
            PROTOCOL_SCTP:    quoted_l4;
            PROTOCOL_UDPLITE: quoted_l4;
            PROTOCOL_DCCP:    quoted_l4;
            PROTOCOL_ICMPV6:  quoted_echo;
            default:          accept;
        }
    }

#endif
