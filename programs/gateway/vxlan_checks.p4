// SPDX-License-Identifier: Apache-2.0
//
// Is it sound VXLAN with a packet inside that may be routed? The parser has already checked what
// can be seen in one header alone (versions, IPv4 checksums, truncation); here are the checks that
// need several headers.
//
// Deliberately absent: the outer TTL, as a packet that has reached its destination isn't dropped
// for a low one (RFC 1122, section 3.2.1.7); the outer UDP checksum, which a receiver of VXLAN may
// leave unchecked (RFC 7348, section 5; RFC 6935 for IPv6) and which the NIC checks.

#ifndef GATEWAY_VXLAN_CHECKS_P4
#define GATEWAY_VXLAN_CHECKS_P4

#include "metadata.p4"

control vxlan_checks_step(in headers_t hdr, inout metadata_t meta) {
    bit<16> underlay_payload;   // bytes behind the outer IP header
    bit<32> inner_frame;        // bytes that the inner headers ask for, from UDP on

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

        // 8 bytes UDP, 8 VXLAN, 14 Ethernet, then IP. Padding behind the inner packet is fine.
        if (hdr.inner_ipv4.isValid()) {
            inner_frame = 30 + (bit<32>) hdr.inner_ipv4.total_length;
        } else if (hdr.inner_ipv6.isValid()) {
            inner_frame = 70 + (bit<32>) hdr.inner_ipv6.payload_length;
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
