// SPDX-License-Identifier: Apache-2.0
//
// How does an ICMP message get back? The way the packet came: to its outer source, with its VNI and
// the inner MACs exchanged. So it needs no route, no VM and no permission of a list: a tenant that
// denies ICMP still learns path MTUs. The outer source is a server or a remote of the region
// (`classify`), so the gateway reflects packets to nothing else.

#ifndef GATEWAY_ICMP_RETURN_P4
#define GATEWAY_ICMP_RETURN_P4

#include "metadata.p4"
#include "verdicts.p4"

control icmp_return_step(inout headers_t hdr, inout metadata_t meta, in bit<16> inner_bytes) {
    apply {
        hdr.outer_ethernet.setValid();
        hdr.outer_udp.setValid();
        hdr.outer_udp.length = 30 + inner_bytes;   // 8 UDP, 8 VXLAN, 14 Ethernet
        hdr.vxlan.setValid();
        if (hdr.icmp_task.over_ipv6 == 1) {
            hdr.outer_ipv6.setValid();
            hdr.outer_ipv6.destination = hdr.icmp_task.tunnel;
        } else {
            hdr.outer_ipv4.setValid();
            hdr.outer_ipv4.destination = hdr.icmp_task.tunnel[31:0];
        }
        hdr.inner_ethernet.destination = hdr.inner_ethernet.source;   // `encap` sets the source
        meta.vpc = hdr.icmp_task.vpc;
        meta.to_vni = hdr.icmp_task.vni;
        meta.outer_dscp = hdr.icmp_task.dscp;
        meta.trailer = true;   // what is not quoted, and padding, are behind the message
        meta.fragment = fragment_t.whole;
        meta.l4_source = (bit<16>) hdr.icmp.type;
        meta.l4_destination = (bit<16>) hdr.icmp.code;
        // `neighbour_mac` counts the others, because it can drop them.
        if (hdr.icmp_task.cause != icmp_cause_t.neighbour) {
            icmp_sent.count((bit<8>) hdr.icmp_task.cause);
        }
        hdr.icmp_task.setInvalid();
    }
}

#endif
