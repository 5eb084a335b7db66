// SPDX-License-Identifier: Apache-2.0
//
// States of the parser for frames with one VLAN tag (IEEE 802.1Q) on the underlay. They are part of
// `gateway_parser`, which includes this file. Frames without a tag pass none of these states. After
// the tag, the length of the frame is compared with 4 bytes more; then the states are the same. A
// switch reads no tag and sends the frame to the CPU.

#ifndef GATEWAY_VLAN_PARSER_P4
#define GATEWAY_VLAN_PARSER_P4

    state outer_vlan {
        transition select(meta.one_pass_only) {
            true:    kind_vlan;
            default: outer_tag;
        }
    }

    state outer_tag {
        packet.extract(hdr.outer_vlan);
        transition select(hdr.outer_vlan.ether_type) {
            ETHERTYPE_IPV4:  tagged_ipv4;
            ETHERTYPE_IPV6:  tagged_ipv6;
            ETHERTYPE_ARP:   kind_arp;
            ETHERTYPE_LLDP:  kind_link_protocol;
            ETHERTYPE_LACP:  kind_link_protocol;
            ETHERTYPE_EAPOL: kind_link_protocol;
            default:         accept;
        }
    }

    state tagged_ipv4 {
        packet.extract(hdr.outer_ipv4);
        verify(hdr.outer_ipv4.version == 4, error.OuterIpv4Header);
        verify(hdr.outer_ipv4.ihl >= 5, error.OuterIpv4Header);
        verify(hdr.outer_ipv4.total_length >= 20, error.OuterIpv4Header);
        transition select((bit<32>) hdr.outer_ipv4.total_length + 18 == packet.length()) {
            true:    outer_ipv4_whole;
            default: tagged_ipv4_trailer;
        }
    }

    state tagged_ipv4_trailer {
        verify((bit<32>) hdr.outer_ipv4.total_length + 18 <= packet.length(), error.OuterTruncated);
        meta.trailer = true;
        transition outer_ipv4_whole;
    }

    state tagged_ipv6 {
        packet.extract(hdr.outer_ipv6);
        verify(hdr.outer_ipv6.version == 6, error.OuterIpv6Header);
        meta.tunnel_v6 = hdr.outer_ipv6.source;
        transition select((bit<32>) hdr.outer_ipv6.payload_length + 58 == packet.length()) {
            true:    outer_ipv6_whole;
            default: tagged_ipv6_trailer;
        }
    }

    state tagged_ipv6_trailer {
        verify((bit<32>) hdr.outer_ipv6.payload_length + 58 <= packet.length(), error.OuterTruncated);
        meta.trailer = true;
        transition outer_ipv6_whole;
    }

#endif
