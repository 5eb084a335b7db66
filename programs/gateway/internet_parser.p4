// SPDX-License-Identifier: Apache-2.0
//
// States of the parser for layer 4 of plain IPv6 packets, because they may come from the Internet for a
// VM. They are part of `gateway_parser`, which includes this file. A switch has none of these headers:
// it reads the kinds of packets for the gateway itself.

#ifndef GATEWAY_INTERNET_PARSER_P4
#define GATEWAY_INTERNET_PARSER_P4

    state outer_ipv6_tcp {
        transition select(meta.one_pass_only) {
            false:   outer_ipv6_tcp_length;
            default: outer_tcp;
        }
    }

    state outer_ipv6_tcp_length {
        transition select(hdr.outer_ipv6.payload_length >= 20) {
            true:    outer_tcp_header;   // nat_parser.p4
            default: outer_tcp;
        }
    }

    state outer_ipv6_icmp {
        transition select(meta.one_pass_only) {
            false:   outer_ipv6_icmp_length;
            default: outer_icmpv6;
        }
    }

    state outer_ipv6_icmp_length {
        transition select(hdr.outer_ipv6.payload_length >= 8) {
            true:    outer_icmpv6_header;
            default: outer_icmpv6;
        }
    }

    state outer_icmpv6_header {
        packet.extract(hdr.l4_icmp);
        transition select(hdr.l4_icmp.type) {
            0 .. 127:   outer_icmpv6_error;
            133 .. 137: kind_nd;
            default:    kind_icmp;
        }
    }

    state outer_icmpv6_error {
        meta.punt_kind = punt_reason_t.icmp_error;
        transition select(hdr.outer_ipv6.payload_length >= 56, hdr.l4_icmp.type) {
            (true, ICMPV6_UNREACHABLE .. ICMPV6_PARAMETER_PROBLEM): quote_of_icmpv6_error;   // groups_parser.p4
            default:                                                accept;
        }
    }

    // Extension headers, and protocols with ports: the walk is that of tenants' packets.
    state outer_ipv6_rarer {
        transition select(meta.one_pass_only) {
            false:   outer_ipv6_walk;
            default: accept;
        }
    }

    state outer_ipv6_walk {
        kind = hdr.outer_ipv6.next_header;
        left = hdr.outer_ipv6.payload_length;
        transition select(kind) {
            PROTOCOL_IPV6_FRAG: ipv6_fragment;   // fragment_parser.p4
            default:            walk_ipv6;
        }
    }

#endif
