// SPDX-License-Identifier: Apache-2.0
//
// Whose packet is it: a tenant's, in VXLAN to one of our tunnel addresses from an end point that we
// know, or one for the gateway itself (control and protocol traffic), which goes to the CPU? All
// else isn't ours.
//
// A frame that isn't to the MAC of the port that it came in on isn't for us, whatever its IP
// destination says (RFC 1812, section 5.3.4): a switch that floods would else have us send tenants'
// packets twice. Protocols that speak to groups of neighbours (ARP, LLDP, OSPF, ...) are excepted.
//
// VXLAN does not authenticate its sender, so only the source address keeps any host that reaches
// our address out of a tenant's network: it has to be a server's or a remote's.

#ifndef GATEWAY_CLASSIFY_P4
#define GATEWAY_CLASSIFY_P4

#include "metadata.p4"

control classify_step(in headers_t hdr, inout metadata_t meta, in pna_main_input_metadata_t istd) {
    action own_port() { }

    action other_mac() {
        drop(meta, drop_reason_t.underlay_other_mac);
    }

    /// The port that the frame came in on has this MAC. Ports with greater numbers than 65535 are
    /// the engine's own.
    table own_mac {
        key = {
            (bit<16>) (PortIdUint_t) istd.input_port: exact @name("port");
            hdr.outer_ethernet.destination:           exact @name("mac");
        }
        actions = { own_port; @defaultonly other_mac; }
        const default_action = other_mac();
        size = 1024;
    }

    // ---- tunnels ------------------------------------------------------------------------------

    /// A server's tunnel: its packets were sent by VMs.
    action from_server() {
        meta.sender = sender_t.server;
    }

    /// A remote's: its packets come from outside of the region's VPCs.
    action from_remote() {
        meta.sender = sender_t.remote;
    }

    /// One entry for each server and remote, with the address of ours that it sends to. So most
    /// packets need no look at our own addresses.
    table tunnel_v4 {
        key = {
            hdr.outer_ipv4.source:      exact @name("source");
            hdr.outer_ipv4.destination: exact @name("destination");
        }
        actions = { from_server; from_remote; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 262144;
    }

    table tunnel_v6 {
        key = {
            hdr.outer_ipv6.source:      exact @name("source");
            hdr.outer_ipv6.destination: exact @name("destination");
        }
        actions = { from_server; from_remote; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 262144;
    }

    action unknown_source() {
        drop(meta, drop_reason_t.unknown_source);
    }

    /// Further sources, for what `tunnel_v4` doesn't have.
    table source_v4 {
        key = { hdr.outer_ipv4.source: lpm @name("source"); }
        actions = { from_server; from_remote; @defaultonly unknown_source; }
        const default_action = unknown_source();
        size = 1024;
    }

    table source_v6 {
        key = { hdr.outer_ipv6.source: lpm @name("source"); }
        actions = { from_server; from_remote; @defaultonly unknown_source; }
        const default_action = unknown_source();
        size = 1024;
    }

    // ---- own addresses ------------------------------------------------------------------------

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
        } else if (hdr.outer_ipv6.isValid()) {
            // ff02::/16 and fe80::/10: neighbour and router discovery, and routing protocols.
            if (hdr.outer_ipv6.destination[127:112] == 0xff02
                || hdr.outer_ipv6.destination[127:118] == 0x3fa) {
                to_cpu(meta, punt_reason_t.link_local);
            }
        } else {
            if (hdr.outer_ethernet.ether_type == ETHERTYPE_ARP
                || hdr.outer_ethernet.ether_type == ETHERTYPE_LLDP
                || hdr.outer_ethernet.ether_type == ETHERTYPE_LACP) {
                to_cpu(meta, punt_reason_t.link_protocol);
            }
            drop(meta, drop_reason_t.underlay_not_ip);
        }
        own_mac.apply();

        if (hdr.vxlan.isValid()) {
            if (hdr.outer_ipv4.isValid()) {
                tunnel_v4.apply();
            } else {
                tunnel_v6.apply();
            }
        }
        if (meta.sender == sender_t.unknown) {
            if (hdr.outer_ipv4.isValid()) {
                own_address_v4.apply();
            } else {
                own_address_v6.apply();
            }

            // Here the packet is to one of our tunnel addresses. UDP whose port the parser couldn't
            // reach might be VXLAN, which may neither be fragmented nor have options; the CPU is
            // spared.
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

            if (hdr.outer_ipv4.isValid()) {
                source_v4.apply();
            } else {
                source_v6.apply();
            }
        }
    }
}

#endif
