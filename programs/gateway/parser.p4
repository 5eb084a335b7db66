// SPDX-License-Identifier: Apache-2.0
//
// Which headers are there, and are they what they claim to be? Ethernet, IP, UDP, VXLAN, then
// the tenant's Ethernet and IP, and a look at the first bytes of layer 4. Packets that aren't
// VXLAN are accepted where they turn out not to be, and it's up to `classify` what they are.

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
    InnerIpv4Options,
    InnerIpv4Checksum,
    InnerIpv6Header,
    InnerIpv6Extension,
    InnerLength
}

parser gateway_parser(packet_in packet,
                      out headers_t hdr,
                      inout metadata_t meta,
                      in pna_main_parser_input_metadata_t istd) {
    InternetChecksum() outer_checksum;
    InternetChecksum() inner_checksum;

    state start {
        meta.drop_reason = drop_reason_t.none;
        meta.punt_reason = punt_reason_t.none;
        meta.protocol = 0;
        meta.l4_source = 0;
        meta.l4_destination = 0;
        meta.fragment = fragment_t.whole;
        packet.extract(hdr.outer_ethernet);
        transition select(hdr.outer_ethernet.ether_type) {
            ETHERTYPE_IPV4: outer_ipv4;
            ETHERTYPE_IPV6: outer_ipv6;
            default:        accept;
        }
    }

    // ---- underlay ---------------------------------------------------------------------------

    state outer_ipv4 {
        packet.extract(hdr.outer_ipv4);
        verify(hdr.outer_ipv4.version == 4, error.OuterIpv4Header);
        verify(hdr.outer_ipv4.ihl >= 5, error.OuterIpv4Header);
        verify(hdr.outer_ipv4.total_length >= 20, error.OuterIpv4Header);
        verify((bit<32>) hdr.outer_ipv4.total_length + 14 <= packet.length(), error.OuterTruncated);
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
            (0, 0, PROTOCOL_UDP): outer_udp;
            default:              accept;
        }
    }

    state outer_ipv6 {
        packet.extract(hdr.outer_ipv6);
        verify(hdr.outer_ipv6.version == 6, error.OuterIpv6Header);
        verify((bit<32>) hdr.outer_ipv6.payload_length + 54 <= packet.length(), error.OuterTruncated);
        transition select(hdr.outer_ipv6.next_header) {
            PROTOCOL_UDP: outer_udp;
            default:      accept;
        }
    }

    state outer_udp {
        packet.extract(hdr.outer_udp);
        transition select(hdr.outer_udp.destination) {
            UDP_PORT_VXLAN: vxlan;
            default:        accept;
        }
    }

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
        verify(hdr.inner_ipv4.ihl == 5, error.InnerIpv4Options);
        verify(hdr.inner_ipv4.total_length >= 20, error.InnerLength);
        inner_checksum.add({ hdr.inner_ipv4.version, hdr.inner_ipv4.ihl, hdr.inner_ipv4.dscp,
                             hdr.inner_ipv4.ecn, hdr.inner_ipv4.total_length,
                             hdr.inner_ipv4.identification, hdr.inner_ipv4.reserved,
                             hdr.inner_ipv4.dont_fragment, hdr.inner_ipv4.more_fragments,
                             hdr.inner_ipv4.fragment_offset, hdr.inner_ipv4.ttl,
                             hdr.inner_ipv4.protocol, hdr.inner_ipv4.checksum,
                             hdr.inner_ipv4.source, hdr.inner_ipv4.destination });
        verify(inner_checksum.get() == 0, error.InnerIpv4Checksum);
        meta.protocol = hdr.inner_ipv4.protocol;
        transition select(hdr.inner_ipv4.more_fragments, hdr.inner_ipv4.fragment_offset) {
            (0, 0):  inner_ipv4_layer_4;
            (1, 0):  inner_ipv4_first_fragment;
            default: inner_later_fragment;
        }
    }

    state inner_ipv4_first_fragment {
        meta.fragment = fragment_t.first;
        transition inner_ipv4_layer_4;
    }

    state inner_ipv4_layer_4 {
        transition select(hdr.inner_ipv4.protocol) {
            PROTOCOL_TCP:  inner_ipv4_has_layer_4;
            PROTOCOL_UDP:  inner_ipv4_has_layer_4;
            PROTOCOL_ICMP: inner_ipv4_has_layer_4;
            default:       accept;
        }
    }

    // Four bytes of layer 4 are inside the datagram, not in padding behind it.
    state inner_ipv4_has_layer_4 {
        verify(hdr.inner_ipv4.total_length >= 24, error.InnerLength);
        transition select(hdr.inner_ipv4.protocol) {
            PROTOCOL_TCP: ports;
            PROTOCOL_UDP: ports;
            default:      icmp;
        }
    }

    // Extension headers other than Fragment would hide the ports from the ACL.
    state inner_ipv6 {
        packet.extract(hdr.inner_ipv6);
        verify(hdr.inner_ipv6.version == 6, error.InnerIpv6Header);
        meta.protocol = hdr.inner_ipv6.next_header;
        transition select(hdr.inner_ipv6.next_header) {
            PROTOCOL_IPV6_FRAG: inner_ipv6_fragment;
            default:            inner_ipv6_layer_4;
        }
    }

    state inner_ipv6_fragment {
        packet.extract(hdr.inner_ipv6_fragment);
        meta.protocol = hdr.inner_ipv6_fragment.next_header;
        verify(hdr.inner_ipv6.payload_length >= 8, error.InnerLength);
        transition select(hdr.inner_ipv6_fragment.fragment_offset) {
            0:       inner_ipv6_first_fragment;
            default: inner_later_fragment;
        }
    }

    state inner_ipv6_first_fragment {
        meta.fragment = fragment_t.first;
        verify(hdr.inner_ipv6.payload_length >= 12, error.InnerLength);
        transition inner_ipv6_layer_4;
    }

    state inner_ipv6_layer_4 {
        transition select(meta.protocol) {
            PROTOCOL_TCP:       inner_ipv6_ports;
            PROTOCOL_UDP:       inner_ipv6_ports;
            PROTOCOL_ICMPV6:    inner_ipv6_icmp;
            0:                  inner_ipv6_extension;   // hop-by-hop options
            43:                 inner_ipv6_extension;   // routing
            PROTOCOL_IPV6_FRAG: inner_ipv6_extension;   // a fragment of a fragment
            51:                 inner_ipv6_extension;   // authentication
            60:                 inner_ipv6_extension;   // destination options
            135:                inner_ipv6_extension;   // mobility
            139:                inner_ipv6_extension;   // host identity
            140:                inner_ipv6_extension;   // shim6
            default:            accept;
        }
    }

    state inner_ipv6_extension {
        verify(false, error.InnerIpv6Extension);
        transition accept;
    }

    state inner_ipv6_ports {
        verify(hdr.inner_ipv6.payload_length >= 4, error.InnerLength);
        transition ports;
    }

    state inner_ipv6_icmp {
        verify(hdr.inner_ipv6.payload_length >= 4, error.InnerLength);
        transition icmp;
    }

    state inner_later_fragment {
        meta.fragment = fragment_t.later;
        transition accept;
    }

    state ports {
        bit<32> first_word = packet.lookahead<bit<32>>();
        meta.l4_source = first_word[31:16];
        meta.l4_destination = first_word[15:0];
        transition accept;
    }

    state icmp {
        bit<16> type_and_code = packet.lookahead<bit<16>>();
        meta.l4_source = (bit<16>) type_and_code[15:8];
        meta.l4_destination = (bit<16>) type_and_code[7:0];
        transition accept;
    }
}

#endif
