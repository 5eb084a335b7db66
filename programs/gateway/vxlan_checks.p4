// SPDX-License-Identifier: Apache-2.0
//
// Is the packet valid VXLAN with a routable packet, or ARP, inside? The parser has already checked
// each header alone (versions, IPv4 checksums, truncation). These checks need several
// headers.
//
// Not checked: the outer TTL, because a packet at its destination is not dropped for a low TTL (RFC
// 1122, section 3.2.1.7); and the outer UDP checksum, because a VXLAN receiver may ignore it (RFC
// 7348, section 5; RFC 6935 for IPv6) and the NIC checks it.

#ifndef GATEWAY_VXLAN_CHECKS_P4
#define GATEWAY_VXLAN_CHECKS_P4

#include "metadata.p4"

control vxlan_checks_step(in headers_t hdr, inout metadata_t meta) {
    bit<16> underlay_payload;   // bytes after the outer IP header
    bit<32> inner_frame;        // bytes required by the inner headers, from UDP on

    apply {
        if (hdr.outer_ipv4.isValid()) {
            underlay_payload = hdr.outer_ipv4.total_length - 20;
            meta.outer_dscp = hdr.outer_ipv4.dscp;
            meta.outer_ecn = hdr.outer_ipv4.ecn;
        } else {
            underlay_payload = hdr.outer_ipv6.payload_length;
            meta.outer_dscp = hdr.outer_ipv6.dscp;
            meta.outer_ecn = hdr.outer_ipv6.ecn;
        }
        if (hdr.outer_udp.length != underlay_payload) {
            drop(meta, drop_reason_t.underlay_udp_length);
        }
        if ((hdr.vxlan.flags & VXLAN_FLAG_I) == 0) {
            drop(meta, drop_reason_t.vxlan_flag_i_clear);
        }

        // 8 bytes UDP, 8 VXLAN, 14 Ethernet, then IP. Padding after the inner packet is valid.
        if (hdr.inner_ipv4.isValid()) {
            inner_frame = 30 + (bit<32>) hdr.inner_ipv4.total_length;
        } else if (hdr.inner_ipv6.isValid()) {
            inner_frame = 70 + (bit<32>) hdr.inner_ipv6.payload_length;
        } else if (hdr.inner_ethernet.ether_type == ETHERTYPE_ARP) {
            inner_frame = 58;
        } else {
            if (hdr.inner_ethernet.ether_type == ETHERTYPE_VLAN
                || hdr.inner_ethernet.ether_type == ETHERTYPE_QINQ) {
                drop(meta, drop_reason_t.inner_vlan_tag);
            }
            drop(meta, drop_reason_t.inner_not_ip);
        }
        if (inner_frame > (bit<32>) hdr.outer_udp.length) {
            drop(meta, drop_reason_t.inner_truncated);
        }
    }
}

#endif
