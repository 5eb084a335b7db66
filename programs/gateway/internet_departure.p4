// SPDX-License-Identifier: Apache-2.0
//
// The tenant's IPv6 packet leaves the tunnel, as those over IPv4 do (nat_departure.p4).

#ifndef GATEWAY_INTERNET_DEPARTURE_P4
#define GATEWAY_INTERNET_DEPARTURE_P4

#include "metadata.p4"

/// Prepares the outer header for `underlay`.
control internet_path_step(inout headers_t hdr, inout metadata_t meta) {
    apply {
        if (hdr.outer_udp.length != hdr.inner_ipv6.payload_length + 70) {
            meta.trailer = true;
        }
        // An ICMP error goes back to the server (verdicts.p4).
        if (hdr.outer_ipv4.isValid()) {
            meta.tunnel_v4 = hdr.outer_ipv4.source;
        }
        hdr.outer_ipv4.setInvalid();
        hdr.outer_ipv6.setValid();
        hdr.outer_ipv6.destination = hdr.inner_ipv6.destination;
        hdr.outer_udp.length = hdr.inner_ipv6.payload_length;
    }
}

control internet_departure_step(inout headers_t hdr, in metadata_t meta) {
    apply {
        // Padding and bytes behind the tunnel are not sent.
        if (meta.trailer) {
            if (meta.vid == 0) {
                truncate(54 + (bit<32>) hdr.inner_ipv6.payload_length);
            } else {
                truncate(58 + (bit<32>) hdr.inner_ipv6.payload_length);
            }
        }
        hdr.outer_ethernet.ether_type = ETHERTYPE_IPV6;
        hdr.outer_ipv6 = hdr.inner_ipv6;
        hdr.outer_udp.setInvalid();
        hdr.vxlan.setInvalid();
        hdr.inner_ethernet.setInvalid();
        hdr.inner_ipv6.setInvalid();
    }
}

#endif
