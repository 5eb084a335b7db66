// SPDX-License-Identifier: Apache-2.0
//
// Whose packet is it: a tenant's, in VXLAN to one of our tunnel addresses, or one for the
// gateway itself (control and protocol traffic), which goes to the CPU? All else isn't ours.

#ifndef GATEWAY_CLASSIFY_P4
#define GATEWAY_CLASSIFY_P4

#include "metadata.p4"

control classify_step(in headers_t hdr, inout metadata_t meta) {
    /// An address at which tunnels end. What isn't VXLAN goes to the CPU.
    action tunnel_address() { }

    /// An address of the gateway at which no tunnel ends: all goes to the CPU.
    action router_address() {
        to_cpu(meta, punt_reason_t.gateway_address);
    }

    action not_for_gateway() {
        drop(meta, drop_reason_t.not_for_gateway);
    }

    table own_address_v4 {
        key = { hdr.outer_ipv4.destination: exact @name("destination"); }
        actions = { tunnel_address; router_address; @defaultonly not_for_gateway; }
        const default_action = not_for_gateway();
        size = 1024;
    }

    table own_address_v6 {
        key = { hdr.outer_ipv6.destination: exact @name("destination"); }
        actions = { tunnel_address; router_address; @defaultonly not_for_gateway; }
        const default_action = not_for_gateway();
        size = 1024;
    }

    apply {
        if (hdr.outer_ipv4.isValid()) {
            // 224.0.0.0/24: OSPF, VRRP, IGMP and their like.
            if (hdr.outer_ipv4.destination[31:8] == 0xe00000) {
                to_cpu(meta, punt_reason_t.link_local);
            }
            own_address_v4.apply();
        } else if (hdr.outer_ipv6.isValid()) {
            // ff02::/16 and fe80::/10: neighbour and router discovery, and routing protocols.
            if (hdr.outer_ipv6.destination[127:112] == 0xff02
                || hdr.outer_ipv6.destination[127:118] == 0x3fa) {
                to_cpu(meta, punt_reason_t.link_local);
            }
            own_address_v6.apply();
        } else {
            if (hdr.outer_ethernet.ether_type == ETHERTYPE_ARP
                || hdr.outer_ethernet.ether_type == ETHERTYPE_LLDP
                || hdr.outer_ethernet.ether_type == ETHERTYPE_LACP) {
                to_cpu(meta, punt_reason_t.link_protocol);
            }
            drop(meta, drop_reason_t.underlay_not_ip);
        }

        // Here the packet is to one of our tunnel addresses. UDP whose port the parser couldn't
        // reach might be VXLAN, which may neither be fragmented nor have options; the CPU is spared.
        if (!hdr.vxlan.isValid()) {
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
            to_cpu(meta, punt_reason_t.gateway_address);
        }
    }
}

#endif
