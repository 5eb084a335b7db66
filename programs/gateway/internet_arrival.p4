// SPDX-License-Identifier: Apache-2.0
//
// Can a packet from the Internet over IPv6 become a tenant's packet? As `nat_arrival` over IPv4: it
// gets the headers of a packet in VXLAN. No address stands for the VM here, so the packet is checked as
// one of a tenant: its source, its length, its extension headers.

#ifndef GATEWAY_INTERNET_ARRIVAL_P4
#define GATEWAY_INTERNET_ARRIVAL_P4

#include "metadata.p4"
#include "parser.p4"
#include "verdicts.p4"

control internet_arrival_step(inout headers_t hdr, inout metadata_t meta, in pna_main_input_metadata_t istd) {
    bool          usable;
    drop_reason_t reason;

    apply {
        // Extension headers that `malformed` has left to this step.
        if (istd.parser_error != error.NoError) {
            reason = drop_reason_t.inner_length;
            if (istd.parser_error == error.InnerIpv6Extension) {
                reason = drop_reason_t.inner_ipv6_extension;
            } else if (istd.parser_error == error.InnerHeadersTooLong) {
                reason = drop_reason_t.inner_headers_too_long;
            } else if (istd.parser_error == error.InnerSourceRoute) {
                reason = drop_reason_t.inner_source_route;
            }
            drop(meta, reason);
        }
        // Neighbour discovery is for one link (RFC 4861, section 6.1). So a redirect does not pass.
        if (meta.punt_kind == punt_reason_t.nd) {
            drop(meta, drop_reason_t.nd_hop_limit);
        }
        // As `inner_checks`.
        usable = hdr.outer_ipv6.source[127:32] != 0
              && hdr.outer_ipv6.source[127:32] != 0xffff
              && hdr.outer_ipv6.source[127:118] != 0x3fa
              && hdr.outer_ipv6.source[127:120] != 0xff;
        if (!usable) {
            drop(meta, drop_reason_t.inner_address);
        }
        // RFC 8200, section 3. The sender is not told, because the gateway has no address there.
        if (hdr.outer_ipv6.hop_limit <= 1) {
            drop(meta, drop_reason_t.inner_ttl_expired);
        }
        if ((meta.extensions & meta.refused) != 0) {
            drop(meta, drop_reason_t.extension_denied);
        }
        meta.nat = nat_t.inbound;
        meta.hops = 1;
        meta.outer_dscp = 0;   // the Internet does not choose the class in the underlay
        meta.outer_ecn = ecn_t.not_ect;
        // Otherwise the parser has walked over extension headers.
        if (meta.protocol == 0) {
            meta.protocol = hdr.outer_ipv6.next_header;
            if (hdr.outer_udp.isValid()) {
                if (hdr.outer_ipv6.payload_length < 8) {
                    drop(meta, drop_reason_t.inner_length);
                }
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
            } else if (meta.protocol == PROTOCOL_TCP || meta.protocol == PROTOCOL_ICMPV6) {
                drop(meta, drop_reason_t.inner_length);
            }
        }
        hdr.inner_ipv6 = hdr.outer_ipv6;
        hdr.outer_udp.setValid();
        hdr.outer_udp.length = hdr.inner_ipv6.payload_length + 70;   // 8 UDP, 8 VXLAN, 14 Ethernet, 40 IP
        hdr.vxlan.setValid();
        hdr.inner_ethernet.setValid();
        hdr.inner_ethernet.ether_type = ETHERTYPE_IPV6;
    }
}

#endif
