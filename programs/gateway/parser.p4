// SPDX-License-Identifier: Apache-2.0
//
// Which headers does the packet have, and are they valid? The parser extracts Ethernet, IP, UDP and
// VXLAN, then the tenant's Ethernet and IP, and reads the first bytes of layer 4, wherever they
// are. It accepts a packet that is not VXLAN at the first header that shows this, and sets its kind
// (`punt_kind`); `classify` decides about such packets.

#ifndef GATEWAY_PARSER_P4
#define GATEWAY_PARSER_P4

#include "headers.p4"
#include "metadata.p4"

error {
    OuterTruncated,
    OuterIpv4Header,
    OuterIpv4Checksum,
    OuterIpv6Header,
    InnerIpv4Header,
    InnerIpv4Checksum,
    InnerIpv6Header,
    InnerIpv6Extension,
    InnerHeadersTooLong,
    InnerSourceRoute,
    InnerLength
}

parser gateway_parser(packet_in packet,
                      out headers_t hdr,
                      inout metadata_t meta,
                      in pna_main_parser_input_metadata_t istd) {
    InternetChecksum() outer_checksum;
    InternetChecksum() inner_checksum;
    bit<16>      at = 0;
    bit<16>      left = 0;
    bit<16>      words = 0;
    bit<32>      word = 0;
    bit<8>       kind = 0;
    bit<320>     options = 0;
    fragment_t   part = fragment_t.whole;
    extensions_t seen = 0;

    state start {
        meta.drop_reason = drop_reason_t.none;
        meta.punt_reason = punt_reason_t.none;
        meta.punt_kind = punt_reason_t.none;
        meta.protocol = 0;
        meta.l4_source = 0;
        meta.l4_destination = 0;
        meta.fragment = fragment_t.whole;
        meta.extensions = 0;
        meta.trailer = false;
        meta.asks_neighbour = false;
        meta.opens_tcp = false;
        meta.answers_neighbours = false;
        meta.limits_mss = false;
        meta.has_groups = false;
        meta.has_services = false;
        meta.sender = sender_t.unknown;
        meta.to_router_address = false;
        meta.from_internet = false;
        meta.nat = nat_t.none;
        meta.tunnel_v6 = 0;
        meta.tunnel_v4 = 0;
        transition select(istd.pass == FIRST_PASS) {
            true:    outer_ethernet;
            default: icmp_task;
        }
    }

    state outer_ethernet {
        packet.extract(hdr.outer_ethernet);
        transition select(hdr.outer_ethernet.ether_type) {
            ETHERTYPE_IPV4:  outer_ipv4;
            ETHERTYPE_IPV6:  outer_ipv6;
            ETHERTYPE_ARP:   kind_arp;
            ETHERTYPE_LLDP:  kind_link_protocol;
            ETHERTYPE_LACP:  kind_link_protocol;
            ETHERTYPE_EAPOL: kind_link_protocol;
            ETHERTYPE_VLAN:  outer_vlan;
            default:         accept;
        }
    }

    // ---- underlay ---------------------------------------------------------------------------

    state outer_ipv4 {
        packet.extract(hdr.outer_ipv4);
        verify(hdr.outer_ipv4.version == 4, error.OuterIpv4Header);
        verify(hdr.outer_ipv4.ihl >= 5, error.OuterIpv4Header);
        verify(hdr.outer_ipv4.total_length >= 20, error.OuterIpv4Header);
        transition select((bit<32>) hdr.outer_ipv4.total_length + 14 == packet.length()) {
            true:    outer_ipv4_whole;
            default: outer_ipv4_trailer;
        }
    }

    // The frame has bytes after the packet: padding, or a frame check sequence that a network card
    // left. They are not sent.
    state outer_ipv4_trailer {
        verify((bit<32>) hdr.outer_ipv4.total_length + 14 <= packet.length(), error.OuterTruncated);
        meta.trailer = true;
        transition outer_ipv4_whole;
    }

    state outer_ipv4_whole {
        transition select(hdr.outer_ipv4.ihl) {
            5:       outer_ipv4_checksum;
            default: accept;
        }
    }

    state outer_ipv4_checksum {
        outer_checksum.add({ hdr.outer_ipv4.version, hdr.outer_ipv4.ihl, hdr.outer_ipv4.dscp,
                             hdr.outer_ipv4.ecn, hdr.outer_ipv4.total_length,
                             hdr.outer_ipv4.identification, hdr.outer_ipv4.reserved,
                             hdr.outer_ipv4.dont_fragment, hdr.outer_ipv4.more_fragments,
                             hdr.outer_ipv4.fragment_offset, hdr.outer_ipv4.ttl,
                             hdr.outer_ipv4.protocol, hdr.outer_ipv4.checksum,
                             hdr.outer_ipv4.source, hdr.outer_ipv4.destination });
        verify(outer_checksum.get() == 0, error.OuterIpv4Checksum);
        transition select(hdr.outer_ipv4.more_fragments, hdr.outer_ipv4.fragment_offset,
                          hdr.outer_ipv4.protocol) {
            (0, 0, PROTOCOL_UDP):  outer_udp;
            (0, 0, PROTOCOL_TCP):  outer_ipv4_tcp;    // nat_parser.p4
            (0, 0, PROTOCOL_ICMP): outer_ipv4_icmp;
            default:               outer_ipv4_rarer;
        }
    }

    state outer_ipv6 {
        packet.extract(hdr.outer_ipv6);
        verify(hdr.outer_ipv6.version == 6, error.OuterIpv6Header);
        meta.tunnel_v6 = hdr.outer_ipv6.source;
        transition select((bit<32>) hdr.outer_ipv6.payload_length + 54 == packet.length()) {
            true:    outer_ipv6_whole;
            default: outer_ipv6_trailer;
        }
    }

    state outer_ipv6_trailer {
        verify((bit<32>) hdr.outer_ipv6.payload_length + 54 <= packet.length(), error.OuterTruncated);
        meta.trailer = true;
        transition outer_ipv6_whole;
    }

    state outer_ipv6_whole {
        transition select(hdr.outer_ipv6.next_header) {
            PROTOCOL_UDP:    outer_udp;
            PROTOCOL_TCP:    outer_ipv6_tcp;    // internet_parser.p4
            PROTOCOL_ICMPV6: outer_ipv6_icmp;
            default:         outer_ipv6_rarer;
        }
    }

    state outer_udp {
        packet.extract(hdr.outer_udp);
        transition select(hdr.outer_udp.destination) {
            UDP_PORT_VXLAN: vxlan;
            default:        outer_udp_kind;
        }
    }

    // Kinds of packets for the gateway itself, and frames with a VLAN tag.
    #include "punt_parser.p4"
    #include "vlan_parser.p4"

    // ---- overlay ----------------------------------------------------------------------------

    state vxlan {
        packet.extract(hdr.vxlan);
        packet.extract(hdr.inner_ethernet);
        transition select(hdr.inner_ethernet.ether_type) {
            ETHERTYPE_IPV4: inner_ipv4;
            ETHERTYPE_IPV6: inner_ipv6;
            default:        accept;
        }
    }

    state inner_ipv4 {
        packet.extract(hdr.inner_ipv4);
        verify(hdr.inner_ipv4.version == 4, error.InnerIpv4Header);
        verify(hdr.inner_ipv4.ihl >= 5, error.InnerIpv4Header);
        verify(hdr.inner_ipv4.total_length >= 20, error.InnerLength);
        inner_checksum.add({ hdr.inner_ipv4.version, hdr.inner_ipv4.ihl, hdr.inner_ipv4.dscp,
                             hdr.inner_ipv4.ecn, hdr.inner_ipv4.total_length,
                             hdr.inner_ipv4.identification, hdr.inner_ipv4.reserved,
                             hdr.inner_ipv4.dont_fragment, hdr.inner_ipv4.more_fragments,
                             hdr.inner_ipv4.fragment_offset, hdr.inner_ipv4.ttl,
                             hdr.inner_ipv4.protocol, hdr.inner_ipv4.checksum,
                             hdr.inner_ipv4.source, hdr.inner_ipv4.destination });
        transition select(hdr.inner_ipv4.ihl) {
            5:       inner_ipv4_checksum;
            default: inner_ipv4_options;
        }
    }

    state inner_ipv4_checksum {
        verify(inner_checksum.get() == 0, error.InnerIpv4Checksum);
        transition select(hdr.inner_ipv4.more_fragments, hdr.inner_ipv4.fragment_offset) {
            (0, 0):  inner_ipv4_layer_4;
            (1, 0):  inner_ipv4_first_fragment;
            default: inner_ipv4_later_fragment;
        }
    }

    state inner_ipv4_first_fragment {
        meta.fragment = fragment_t.first;
        part = fragment_t.first;
        transition inner_ipv4_layer_4;
    }

    state inner_ipv4_later_fragment {
        meta.protocol = hdr.inner_ipv4.protocol;
        meta.fragment = fragment_t.later;
        transition accept;
    }

    // Common protocols are tested first.
    state inner_ipv4_layer_4 {
        transition select(hdr.inner_ipv4.protocol) {
            PROTOCOL_TCP:  inner_ipv4_has_layer_4;
            PROTOCOL_UDP:  inner_ipv4_has_layer_4;
            PROTOCOL_ICMP: inner_ipv4_has_layer_4;
            default:       inner_ipv4_rarer;
        }
    }

    state inner_ipv4_rarer {
        transition select(hdr.inner_ipv4.protocol) {
            PROTOCOL_SCTP:           inner_ipv4_has_layer_4;
            PROTOCOL_UDPLITE:        inner_ipv4_has_layer_4;
            PROTOCOL_DCCP:           inner_ipv4_has_layer_4;
            PROTOCOL_AUTHENTICATION: inner_ipv4_walk;
            default:                 inner_ipv4_other;
        }
    }

    state inner_ipv4_other {
        meta.protocol = hdr.inner_ipv4.protocol;
        transition accept;
    }

    // The datagram has four bytes of layer 4, without padding after the datagram.
    state inner_ipv4_has_layer_4 {
        verify(hdr.inner_ipv4.total_length >= 24, error.InnerLength);
        meta.protocol = hdr.inner_ipv4.protocol;
        transition select(hdr.inner_ipv4.protocol) {
            PROTOCOL_TCP:  inner_ipv4_tcp_or_udp;     // nat_parser.p4
            PROTOCOL_UDP:  inner_ipv4_tcp_or_udp;
            PROTOCOL_ICMP: inner_ipv4_icmp;
            default:       inner_ipv4_other_ports;
        }
    }

    state inner_ipv4_walk {
        kind = hdr.inner_ipv4.protocol;
        left = hdr.inner_ipv4.total_length - 20;
        transition walk_ipv4;
    }

    state inner_ipv6 {
        packet.extract(hdr.inner_ipv6);
        verify(hdr.inner_ipv6.version == 6, error.InnerIpv6Header);
        transition select(hdr.inner_ipv6.next_header) {
            PROTOCOL_TCP:    inner_ipv6_ports;
            PROTOCOL_UDP:    inner_ipv6_ports;
            PROTOCOL_ICMPV6: inner_ipv6_icmp;
            default:         inner_ipv6_rarer;
        }
    }

    state inner_ipv6_rarer {
        transition select(hdr.inner_ipv6.next_header) {
            PROTOCOL_SCTP:           inner_ipv6_ports;
            PROTOCOL_UDPLITE:        inner_ipv6_ports;
            PROTOCOL_DCCP:           inner_ipv6_ports;
            PROTOCOL_HOP_BY_HOP:     inner_ipv6_walk;
            PROTOCOL_ROUTING:        inner_ipv6_walk;
            PROTOCOL_IPV6_FRAG:      inner_ipv6_fragment;   // fragment_parser.p4
            PROTOCOL_AUTHENTICATION: inner_ipv6_walk;
            PROTOCOL_DESTINATION:    inner_ipv6_walk;
            PROTOCOL_MOBILITY:       inner_ipv6_walk;
            PROTOCOL_HIP:            inner_ipv6_walk;
            PROTOCOL_SHIM6:          inner_ipv6_walk;
            default:                 inner_ipv6_other;
        }
    }

    state inner_ipv6_other {
        meta.protocol = hdr.inner_ipv6.next_header;
        transition accept;
    }

    state inner_ipv6_ports {
        verify(hdr.inner_ipv6.payload_length >= 4, error.InnerLength);
        meta.protocol = hdr.inner_ipv6.next_header;
        transition select(hdr.inner_ipv6.next_header) {
            PROTOCOL_TCP: inner_ipv6_tcp_or_udp;    // groups_parser.p4
            PROTOCOL_UDP: inner_ipv6_tcp_or_udp;
            default:      ports;
        }
    }

    state inner_ipv6_icmp {
        verify(hdr.inner_ipv6.payload_length >= 4, error.InnerLength);
        meta.protocol = hdr.inner_ipv6.next_header;
        transition select(meta.one_pass_only) {
            false:   inner_icmpv6;           // groups_parser.p4
            default: icmp;
        }
    }

    state inner_ipv6_walk {
        kind = hdr.inner_ipv6.next_header;
        left = hdr.inner_ipv6.payload_length;
        transition walk_ipv6;
    }

    state ports {
        bit<32> first_word = packet.lookahead<bit<32>>();
        meta.l4_source = first_word[31:16];
        meta.l4_destination = first_word[15:0];
        transition select(meta.protocol) {
            PROTOCOL_TCP: tcp;
            default:      accept;
        }
    }

    state icmp {
        bit<32> first_word = packet.lookahead<bit<32>>();
        meta.l4_source = (bit<16>) first_word[31:24];
        meta.l4_destination = (bit<16>) first_word[23:16];
        transition accept;
    }

    // Layer 4 of both versions of IP, of a tenant and of plain packets.
    #include "tcp_parser.p4"
    #include "nat_parser.p4"
    #include "groups_parser.p4"
    #include "internet_parser.p4"
    #include "fragment_parser.p4"

    // ---- options and extension headers --------------------------------------------------------
    // IPv4 options, IPv6 extension headers (RFC 8200, section 4; RFC 7045) and authentication
    // headers of both are between IP and layer 4. They are not extracted: the parser looks ahead
    // over them, up to 64 bytes. Headers beyond 64 bytes are an error, because the ports after them
    // would be unknown.
    //
    // `at` is the position in words of 4 bytes, `left` the number of remaining bytes of the
    // datagram there, and `kind` the protocol there.

    state inner_ipv4_options {
        kind = hdr.inner_ipv4.protocol;
        seen = EXTENSION_IPV4_OPTIONS;
        at = (bit<16>) hdr.inner_ipv4.ihl - 5;
        verify(hdr.inner_ipv4.total_length >= 4 * (bit<16>) hdr.inner_ipv4.ihl, error.InnerLength);
        left = hdr.inner_ipv4.total_length - 4 * (bit<16>) hdr.inner_ipv4.ihl;
        transition select(hdr.inner_ipv4.ihl) {
            6:       options_1;
            7:       options_2;
            8:       options_3;
            9:       options_4;
            10:      options_5;
            11:      options_6;
            12:      options_7;
            13:      options_8;
            14:      options_9;
            default: options_10;
        }
    }

    state options_1  { inner_checksum.add({ packet.lookahead<bit<32>>() }); transition options_checksum; }
    state options_2  { inner_checksum.add({ packet.lookahead<bit<64>>() }); transition options_checksum; }
    state options_3  { inner_checksum.add({ packet.lookahead<bit<96>>() }); transition options_checksum; }
    state options_4  { inner_checksum.add({ packet.lookahead<bit<128>>() }); transition options_checksum; }
    state options_5  { inner_checksum.add({ packet.lookahead<bit<160>>() }); transition options_checksum; }
    state options_6  { inner_checksum.add({ packet.lookahead<bit<192>>() }); transition options_checksum; }
    state options_7  { inner_checksum.add({ packet.lookahead<bit<224>>() }); transition options_checksum; }
    state options_8  { inner_checksum.add({ packet.lookahead<bit<256>>() }); transition options_checksum; }
    state options_9  { inner_checksum.add({ packet.lookahead<bit<288>>() }); transition options_checksum; }
    state options_10 { inner_checksum.add({ packet.lookahead<bit<320>>() }); transition options_checksum; }

    state options_checksum {
        verify(inner_checksum.get() == 0, error.InnerIpv4Checksum);
        transition select(hdr.inner_ipv4.more_fragments, hdr.inner_ipv4.fragment_offset) {
            (0, 0):  walk_ipv4;
            (1, 0):  options_first_fragment;
            default: walk_later;
        }
    }

    state options_first_fragment {
        part = fragment_t.first;
        transition walk_ipv4;
    }

    state walk_ipv4 {
        transition select(kind) {
            PROTOCOL_TCP:            look;
            PROTOCOL_UDP:            look;
            PROTOCOL_ICMP:           look;
            PROTOCOL_SCTP:           look;
            PROTOCOL_UDPLITE:        look;
            PROTOCOL_DCCP:           look;
            PROTOCOL_AUTHENTICATION: look;
            default:                 walked;
        }
    }

    state walk_ipv6 {
        transition select(kind) {
            PROTOCOL_TCP:            look;
            PROTOCOL_UDP:            look;
            PROTOCOL_ICMPV6:         look;
            PROTOCOL_SCTP:           look;
            PROTOCOL_UDPLITE:        look;
            PROTOCOL_DCCP:           look;
            PROTOCOL_HOP_BY_HOP:     look;
            PROTOCOL_ROUTING:        look;
            PROTOCOL_IPV6_FRAG:      look;
            PROTOCOL_AUTHENTICATION: look;
            PROTOCOL_DESTINATION:    look;
            PROTOCOL_MOBILITY:       look;
            PROTOCOL_HIP:            look;
            PROTOCOL_SHIM6:          look;
            default:                 walked;
        }
    }

    state look {
        verify(left >= 4, error.InnerLength);
        transition select(at) {
            0:       look_0;
            1:       look_1;
            2:       look_2;
            3:       look_3;
            4:       look_4;
            5:       look_5;
            6:       look_6;
            7:       look_7;
            8:       look_8;
            9:       look_9;
            10:      look_10;
            11:      look_11;
            12:      look_12;
            13:      look_13;
            14:      look_14;
            15:      look_15;
            16:      look_16;
            default: too_far;
        }
    }

    state too_far {
        verify(false, error.InnerHeadersTooLong);
        transition accept;
    }

    state look_0  { word = packet.lookahead<bit<32>>(); transition found; }
    state look_1  { word = packet.lookahead<bit<64>>()[31:0]; transition found; }
    state look_2  { word = packet.lookahead<bit<96>>()[31:0]; transition found; }
    state look_3  { word = packet.lookahead<bit<128>>()[31:0]; transition found; }
    state look_4  { word = packet.lookahead<bit<160>>()[31:0]; transition found; }
    state look_5  { word = packet.lookahead<bit<192>>()[31:0]; transition found; }
    state look_6  { word = packet.lookahead<bit<224>>()[31:0]; transition found; }
    state look_7  { word = packet.lookahead<bit<256>>()[31:0]; transition found; }
    state look_8  { word = packet.lookahead<bit<288>>()[31:0]; transition found; }
    state look_9  { word = packet.lookahead<bit<320>>()[31:0]; transition found; }
    state look_10 { word = packet.lookahead<bit<352>>()[31:0]; transition found; }
    state look_11 { word = packet.lookahead<bit<384>>()[31:0]; transition found; }
    state look_12 { word = packet.lookahead<bit<416>>()[31:0]; transition found; }
    state look_13 { word = packet.lookahead<bit<448>>()[31:0]; transition found; }
    state look_14 { word = packet.lookahead<bit<480>>()[31:0]; transition found; }
    state look_15 { word = packet.lookahead<bit<512>>()[31:0]; transition found; }
    state look_16 { word = packet.lookahead<bit<544>>()[31:0]; transition found; }

    state found {
        transition select(kind) {
            PROTOCOL_HOP_BY_HOP:     hop_by_hop;
            PROTOCOL_ROUTING:        routing;
            PROTOCOL_IPV6_FRAG:      fragment;
            PROTOCOL_AUTHENTICATION: authentication;
            PROTOCOL_DESTINATION:    destination;
            PROTOCOL_MOBILITY:       mobility;
            PROTOCOL_HIP:            host_identity;
            PROTOCOL_SHIM6:          shim6;
            PROTOCOL_ICMP:           found_icmp;
            PROTOCOL_ICMPV6:         found_icmp;
            default:                 found_ports;
        }
    }

    state found_ports {
        meta.l4_source = word[31:16];
        meta.l4_destination = word[15:0];
        transition walked;
    }

    state found_icmp {
        meta.l4_source = (bit<16>) word[31:24];
        meta.l4_destination = (bit<16>) word[23:16];
        transition walked;
    }

    state walk_later {
        part = fragment_t.later;
        transition walked;
    }

    state walked {
        meta.protocol = kind;
        meta.fragment = part;
        meta.extensions = seen;
        transition accept;
    }

    // RFC 8200, section 4.1: only directly after the IPv6 header.
    state hop_by_hop {
        verify(at == 0, error.InnerIpv6Extension);
        seen = seen | EXTENSION_HOP_BY_HOP;
        transition eights;
    }

    // RFC 5095: type 0, which makes packets oscillate, is not forwarded.
    state routing {
        verify(word[15:8] != 0, error.InnerSourceRoute);
        seen = seen | EXTENSION_ROUTING;
        transition eights;
    }

    state destination {
        seen = seen | EXTENSION_DESTINATION;
        transition eights;
    }

    state mobility {
        seen = seen | EXTENSION_MOBILITY;
        transition eights;
    }

    state host_identity {
        seen = seen | EXTENSION_HIP;
        transition eights;
    }

    state shim6 {
        seen = seen | EXTENSION_SHIM6;
        transition eights;
    }

    // The length is in units of 8 bytes and excludes the first unit.
    state eights {
        words = 2 * (bit<16>) word[23:16] + 2;
        transition next;
    }

    // RFC 4302, section 2.2: in units of 4 bytes, without the first two.
    state authentication {
        seen = seen | EXTENSION_AUTHENTICATION;
        words = (bit<16>) word[23:16] + 2;
        transition next;
    }

    state next {
        verify(left >= 4 * words, error.InnerLength);
        at = at + words;
        left = left - 4 * words;
        kind = word[31:24];
        transition select(hdr.inner_ipv4.isValid()) {
            true:    walk_ipv4;
            default: walk_ipv6;
        }
    }

    // No sender creates a fragment of a fragment. A later fragment starts in the middle of the
    // data.
    state fragment {
        verify(part == fragment_t.whole, error.InnerIpv6Extension);
        verify(left >= 8, error.InnerLength);
        at = at + 2;
        left = left - 8;
        kind = word[31:24];
        transition select(word[15:3]) {
            0:       fragment_first;
            default: walk_later;
        }
    }

    state fragment_first {
        part = fragment_t.first;
        transition walk_ipv6;
    }

    // The second pass: a packet that causes an ICMP message, or opens a TCP connection.
    #include "icmp_parser.p4"
    #include "tcp_mss_parser.p4"
}

#endif
