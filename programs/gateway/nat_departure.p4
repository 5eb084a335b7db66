// SPDX-License-Identifier: Apache-2.0
//
// The tenant's packet leaves the tunnel: it becomes the packet itself. `nat_path_step` prepares the
// outer header for `underlay`; it follows the last step that can send the packet to the CPU.

#ifndef GATEWAY_NAT_DEPARTURE_P4
#define GATEWAY_NAT_DEPARTURE_P4

#include "metadata.p4"

control nat_path_step(inout headers_t hdr, inout metadata_t meta) {
    apply {
        // The outer header is that of the packet to be sent from here on, as behind `vm_nc`: plain IP
        // to the destination itself. `nat_departure` ends the tunnel. Padding behind the tenant's
        // packet is not sent.
        if (hdr.outer_udp.length != hdr.inner_ipv4.total_length + 30) {
            meta.trailer = true;
        }
        hdr.outer_ipv6.setInvalid();
        hdr.outer_ipv4.setValid();
        hdr.outer_ipv4.destination = hdr.inner_ipv4.destination;
        hdr.outer_udp.length = hdr.inner_ipv4.total_length - 20;
    }
}

control nat_departure_step(inout headers_t hdr, in metadata_t meta) {
    apply {
        // Padding and bytes behind the tunnel are not sent.
        if (meta.trailer) {
            if (meta.vid == 0) {
                truncate(14 + (bit<32>) hdr.inner_ipv4.total_length);
            } else {
                truncate(18 + (bit<32>) hdr.inner_ipv4.total_length);
            }
        }
        hdr.outer_ethernet.ether_type = ETHERTYPE_IPV4;
        hdr.outer_ipv4 = hdr.inner_ipv4;
        hdr.outer_udp.setInvalid();
        hdr.vxlan.setInvalid();
        hdr.inner_ethernet.setInvalid();
        hdr.inner_ipv4.setInvalid();
    }
}

#endif
