// SPDX-License-Identifier: Apache-2.0
//
// Can a packet from the Internet become a tenant's packet? It gets the headers of a packet in
// VXLAN: its own IP header is the inner one, so that later steps see it as they see all others.

#ifndef GATEWAY_NAT_ARRIVAL_P4
#define GATEWAY_NAT_ARRIVAL_P4

#include "metadata.p4"
#include "verdicts.p4"

control nat_arrival_step(inout headers_t hdr, inout metadata_t meta) {
    bool usable;

    apply {
        // As `inner_checks`. The destination is an address of the gateway.
        usable = hdr.outer_ipv4.source[31:24] != 0
              && hdr.outer_ipv4.source[31:24] != 127
              && hdr.outer_ipv4.source[31:16] != 0xa9fe
              && hdr.outer_ipv4.source[31:29] != 7;
        if (!usable) {
            drop(meta, drop_reason_t.inner_address);
        }
        // RFC 1812, section 5.3.1. The sender is not told, because the gateway has no address there.
        if (hdr.outer_ipv4.ttl <= 1) {
            drop(meta, drop_reason_t.inner_ttl_expired);
        }
        meta.nat = nat_t.inbound;
        meta.protocol = hdr.outer_ipv4.protocol;
        meta.hops = 1;
        meta.outer_dscp = 0;   // the Internet does not choose the class in the underlay
        meta.outer_ecn = ecn_t.not_ect;
        hdr.inner_ipv4 = hdr.outer_ipv4;
        if (hdr.outer_ipv4.fragment_offset != 0) {
            meta.fragment = fragment_t.later;
        } else if (hdr.outer_ipv4.more_fragments == 1) {
            meta.fragment = fragment_t.first;
        }
        if (hdr.outer_udp.isValid()) {
            hdr.l4.setValid();
            hdr.l4.source = hdr.outer_udp.source;
            hdr.l4.destination = hdr.outer_udp.destination;
            hdr.l4.length = hdr.outer_udp.length;
            hdr.l4.checksum = hdr.outer_udp.checksum;
        }
        if (hdr.l4.isValid()) {
            meta.l4_source = hdr.l4.source;
            meta.l4_destination = hdr.l4.destination;
        } else if (hdr.l4_icmp.isValid()) {
            meta.l4_source = (bit<16>) hdr.l4_icmp.type;
            meta.l4_destination = (bit<16>) hdr.l4_icmp.code;
        }
        hdr.outer_udp.setValid();
        hdr.outer_udp.length = hdr.inner_ipv4.total_length + 30;   // 8 UDP, 8 VXLAN, 14 Ethernet
        hdr.vxlan.setValid();
        hdr.inner_ethernet.setValid();
        hdr.inner_ethernet.ether_type = ETHERTYPE_IPV4;
    }
}

#endif
