// SPDX-License-Identifier: Apache-2.0
//
// Which headers does the packet have? The parser extracts Ethernet, one VLAN tag, up to two MPLS labels, ARP, IPv4 or IPv6,
// and the ports of TCP and UDP. Like a virtual switch, it does not check the IPv4 checksum, which is left to the receiver.
// Unknown protocols are payload. It records whether a router may forward the packet, so that tables need no TTL.

#ifndef VSWITCH_PARSER_P4
#define VSWITCH_PARSER_P4

#include "headers.p4"

parser vswitch_parser(packet_in packet,
                      out headers_t hdr,
                      inout metadata_t meta,
                      in pna_main_parser_input_metadata_t istd) {
    state start {
        meta.drop_reason = drop_reason_t.none;
        meta.punt_reason = punt_reason_t.none;
        packet.extract(hdr.ethernet);
        meta.vlan = 0;
        meta.expired = false;
        meta.eth_type = hdr.ethernet.ether_type;
        transition select(hdr.ethernet.ether_type) {
            ETHERTYPE_VLAN: vlan;
            default:        inside;
        }
    }

    state vlan {
        packet.extract(hdr.vlan);
        meta.vlan = hdr.vlan.vid;
        meta.eth_type = hdr.vlan.ether_type;
        transition inside;
    }

    state inside {
        transition select(meta.eth_type) {
            ETHERTYPE_IPV4: ipv4;
            ETHERTYPE_IPV6: ipv6;
            ETHERTYPE_MPLS: mpls_outer;
            ETHERTYPE_ARP:  arp;
            default:        accept;
        }
    }

    /// IPv4 follows the last label, because these pipelines know no other use of labels.
    state mpls_outer {
        packet.extract(hdr.mpls_outer);
        transition select(hdr.mpls_outer.bottom) {
            0: mpls_inner;
            1: ipv4;
        }
    }

    state mpls_inner {
        packet.extract(hdr.mpls_inner);
        transition select(hdr.mpls_inner.bottom) {
            0: accept;   // a third label: payload
            1: ipv4;
        }
    }

    state arp {
        packet.extract(hdr.arp);
        transition accept;
    }

    /// Only a first fragment has ports. With IPv4 options, the ports are elsewhere.
    state ipv4 {
        packet.extract(hdr.ipv4);
        meta.expired = hdr.ipv4.ttl <= 1;
        transition select(hdr.ipv4.ihl, hdr.ipv4.fragment_offset, hdr.ipv4.protocol) {
            (5, 0, PROTOCOL_TCP): l4;
            (5, 0, PROTOCOL_UDP): l4;
            default:              accept;
        }
    }

    state ipv6 {
        packet.extract(hdr.ipv6);
        meta.expired = hdr.ipv6.hop_limit <= 1;
        transition select(hdr.ipv6.next_header) {
            PROTOCOL_TCP: l4;
            PROTOCOL_UDP: l4;
            default:      accept;
        }
    }

    state l4 {
        packet.extract(hdr.l4);
        transition accept;
    }
}

control vswitch_pre(in headers_t hdr,
                    inout metadata_t meta,
                    in pna_pre_input_metadata_t istd,
                    inout pna_pre_output_metadata_t ostd) {
    apply { }
}

control vswitch_deparser(packet_out packet,
                         in headers_t hdr,
                         in metadata_t meta,
                         in pna_main_output_metadata_t ostd) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.vlan);
        packet.emit(hdr.mpls_outer);
        packet.emit(hdr.mpls_inner);
        packet.emit(hdr.arp);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.ipv6);
        packet.emit(hdr.l4);
    }
}

#endif
