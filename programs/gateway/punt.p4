// SPDX-License-Identifier: Apache-2.0
//
// Sends a packet for the gateway itself to the CPU, with its kind as the reason. The node limits the
// rate of each kind, so a flood of one (ARP, ping) does not delay another (BGP, BFD). A meter here
// would be state that the packets of a batch must pass in order, and would slow all of them.

#ifndef GATEWAY_PUNT_P4
#define GATEWAY_PUNT_P4

#include "metadata.p4"
#include "public_arp.p4"
#include "verdicts.p4"

control punt_step(inout headers_t hdr, inout metadata_t meta, in pna_main_input_metadata_t istd) {
    public_arp_step() public_arp;
    punt_reason_t kind;
    bit<8>        hops;   // TTL or hop limit; 255 proves that no router has forwarded the packet

    apply {
        // UDP whose port is out of the parser's reach can be VXLAN, which must not be fragmented and
        // has no IPv4 options. It is dropped, so that such packets do not load the CPU.
        if (hdr.outer_ipv4.isValid() && hdr.outer_ipv4.protocol == PROTOCOL_UDP
            && !hdr.outer_udp.isValid()) {
            if (hdr.outer_ipv4.more_fragments == 1 || hdr.outer_ipv4.fragment_offset != 0) {
                drop(meta, drop_reason_t.underlay_fragment);
            }
            drop(meta, drop_reason_t.underlay_ipv4_options);
        }
        if (hdr.outer_ipv6.isValid() && hdr.outer_ipv6.next_header == PROTOCOL_IPV6_FRAG) {
            drop(meta, drop_reason_t.underlay_fragment);
        }

        hops = 255;
        if (hdr.outer_ipv4.isValid()) {
            hops = hdr.outer_ipv4.ttl;
        } else if (hdr.outer_ipv6.isValid()) {
            hops = hdr.outer_ipv6.hop_limit;
        }

        if (!meta.one_pass_only && hdr.arp.isValid()) {
            public_arp.apply(hdr, meta, istd);
        }

        kind = meta.punt_kind;
        if (kind == punt_reason_t.nd && hops != 255) {
            drop(meta, drop_reason_t.nd_hop_limit);
        }
        // RFC 5881, section 5. From further away it is no BFD, so it has no share of BFD's rate.
        if (kind == punt_reason_t.bfd && hops != 255
            && (hdr.outer_udp.destination == UDP_PORT_BFD
                || hdr.outer_udp.destination == UDP_PORT_BFD_ECHO)) {
            kind = punt_reason_t.none;
        }
        if (kind == punt_reason_t.none) {
            kind = punt_reason_t.gateway_address;
        }

        to_cpu(meta, kind);
    }
}

#endif
