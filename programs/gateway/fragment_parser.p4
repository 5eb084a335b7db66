// SPDX-License-Identifier: Apache-2.0
//
// States of the parser for a fragment header directly behind IPv6 (RFC 8200, section 4.5):
// its identification and offset, and TCP or ICMPv6 directly behind it in a first fragment, whose flags
// and identifiers security groups need. `gateway_parser` includes this file. All others go on as behind
// any extension header, as do those on a switch, which tracks no datagrams. Plain packets come here
// too, because they may come from the Internet for a VM (internet_parser.p4).

#ifndef GATEWAY_FRAGMENT_PARSER_P4
#define GATEWAY_FRAGMENT_PARSER_P4

    state inner_ipv6_fragment {
        transition select(meta.one_pass_only) {
            false:   inner_ipv6_fragment_length;
            default: inner_ipv6_walk;
        }
    }

    state inner_ipv6_fragment_length {
        kind = hdr.inner_ipv6.next_header;
        left = hdr.inner_ipv6.payload_length;
        transition ipv6_fragment;
    }

    state ipv6_fragment {
        transition select(left >= 8) {
            true:    ipv6_datagram;
            default: walk_ipv6;
        }
    }

    state ipv6_datagram {
        bit<64> header_bits = packet.lookahead<bit<64>>();
        meta.identification = header_bits[31:0];
        meta.fragment_offset = header_bits[47:35];
        meta.is_last_fragment = header_bits[32:32] == 0;
        transition select(header_bits[47:35], header_bits[63:56]) {
            (0, PROTOCOL_TCP):    ipv6_first_tcp;
            (0, PROTOCOL_ICMPV6): ipv6_first_icmp;
            default:              walk_ipv6;
        }
    }

    state ipv6_first_tcp {
        transition select(left >= 28) {
            true:    ipv6_first_tcp_header;
            default: walk_ipv6;
        }
    }

    state ipv6_first_tcp_header {
        packet.extract(hdr.inner_fragment);
        packet.extract(hdr.l4);
        packet.extract(hdr.l4_rest);
        meta.protocol = PROTOCOL_TCP;
        meta.fragment = fragment_t.first;
        meta.l4_source = hdr.l4.source;
        meta.l4_destination = hdr.l4.destination;
        transition accept;
    }

    state ipv6_first_icmp {
        transition select(left >= 16) {
            true:    ipv6_first_icmp_header;
            default: walk_ipv6;
        }
    }

    state ipv6_first_icmp_header {
        packet.extract(hdr.inner_fragment);
        packet.extract(hdr.l4_icmp);
        meta.protocol = PROTOCOL_ICMPV6;
        meta.fragment = fragment_t.first;
        meta.l4_source = (bit<16>) hdr.l4_icmp.type;
        meta.l4_destination = (bit<16>) hdr.l4_icmp.code;
        transition accept;
    }

#endif
