// SPDX-License-Identifier: Apache-2.0
//
// Is the packet IPv4 in VXLAN over IPv4, and is each header valid? Other packets are accepted
// without an inner IPv4 header, and the control drops them.

#ifndef OVERLAY_PARSER_P4
#define OVERLAY_PARSER_P4

#include "headers.p4"

error {
    Truncated,
    Ipv4Header,
    Ipv4Checksum
}

/// All fields of an IPv4 header. Over a correct header, the checksum is 0 (RFC 1071).
#define IPV4_WORDS(h) { h.version, h.ihl, h.dscp_ecn, h.total_length, h.identification, \
                        h.flags_offset, h.ttl, h.protocol, h.checksum, h.source, h.destination }

parser overlay_parser(packet_in packet,
                      out headers_t hdr,
                      inout metadata_t meta,
                      in pna_main_parser_input_metadata_t istd) {
    InternetChecksum() outer_checksum;
    InternetChecksum() inner_checksum;

    state start {
        meta.drop_reason = drop_reason_t.none;
        meta.ports = 0;
        packet.extract(hdr.outer_ethernet);
        transition select(hdr.outer_ethernet.ether_type) {
            ETHERTYPE_IPV4: outer_ipv4;
            default:        accept;
        }
    }

    state outer_ipv4 {
        packet.extract(hdr.outer_ipv4);
        verify(hdr.outer_ipv4.version == 4 && hdr.outer_ipv4.ihl == 5, error.Ipv4Header);
        verify(hdr.outer_ipv4.total_length >= 20, error.Ipv4Header);
        verify((bit<32>) hdr.outer_ipv4.total_length + 14 <= packet.length(), error.Truncated);
        outer_checksum.add(IPV4_WORDS(hdr.outer_ipv4));
        verify(outer_checksum.get() == 0, error.Ipv4Checksum);
        // Neither a first nor a later fragment (RFC 7348, section 4.3).
        transition select(hdr.outer_ipv4.flags_offset & 0x3fff, hdr.outer_ipv4.protocol) {
            (0, PROTOCOL_UDP): outer_udp;
            default:           accept;
        }
    }

    state outer_udp {
        packet.extract(hdr.outer_udp);
        transition select(hdr.outer_udp.destination) {
            UDP_PORT_VXLAN: vxlan;
            default:        accept;
        }
    }

    state vxlan {
        packet.extract(hdr.vxlan);
        packet.extract(hdr.inner_ethernet);
        transition select(hdr.inner_ethernet.ether_type) {
            ETHERTYPE_IPV4: inner_ipv4;
            default:        accept;
        }
    }

    state inner_ipv4 {
        packet.extract(hdr.inner_ipv4);
        verify(hdr.inner_ipv4.version == 4 && hdr.inner_ipv4.ihl == 5, error.Ipv4Header);
        verify(hdr.inner_ipv4.total_length >= 20, error.Ipv4Header);
        inner_checksum.add(IPV4_WORDS(hdr.inner_ipv4));
        verify(inner_checksum.get() == 0, error.Ipv4Checksum);
        transition select(hdr.inner_ipv4.flags_offset & 0x3fff, hdr.inner_ipv4.protocol) {
            (0, PROTOCOL_TCP): ports;
            (0, PROTOCOL_UDP): ports;
            default:           accept;
        }
    }

    state ports {
        verify(hdr.inner_ipv4.total_length >= 24, error.Truncated);
        meta.ports = packet.lookahead<bit<32>>();
        transition accept;
    }
}

#endif
