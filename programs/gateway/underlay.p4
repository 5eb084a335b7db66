// SPDX-License-Identifier: Apache-2.0
//
// How does the packet reach the outer destination: which of several equal paths, which port, which
// neighbour? The underlay is routed as any IP router does it; its entries come from BGP or from
// the region's servers, apart from all tenants' entries.
//
// ECMP takes no table of its own: a group is a run of 2^n next hops, and the routes to it say where
// it begins and how long it is. Then picking one takes a mask and no division, which every tier can
// do, and no further lookup; weights are numbers of places in the run; a next hop that goes away
// moves the flows of its own places and no others; and a group changes in the same write batch as
// all else.

#ifndef GATEWAY_UNDERLAY_P4
#define GATEWAY_UNDERLAY_P4

#include "metadata.p4"

control underlay_step(inout headers_t hdr, inout metadata_t meta) {
    bit<32> sent_length;   // of the IP packet, in bytes

    // ---- route ------------------------------------------------------------------------------

    action via_next_hop(next_hop_t next_hop) {
        meta.next_hop = next_hop;
    }

    /// One of the next hops from `first` on. `mask` is their number less one; the number is a power
    /// of two.
    action via_group(next_hop_t first, bit<16> mask) {
        // The lower half of the hash goes into the UDP source port, which the routers behind us
        // hash in turn: so this takes the upper half.
        meta.next_hop = first + (next_hop_t) (meta.flow_hash[31:16] & mask);
    }

    action no_underlay_route() {
        drop(meta, drop_reason_t.no_underlay_route);
    }

    table underlay_route_v4 {
        key = { hdr.outer_ipv4.destination: lpm @name("destination"); }
        actions = { via_next_hop; via_group; @defaultonly no_underlay_route; }
        const default_action = no_underlay_route();
        size = 65536;
    }

    table underlay_route_v6 {
        key = { hdr.outer_ipv6.destination: lpm @name("destination"); }
        actions = { via_next_hop; via_group; @defaultonly no_underlay_route; }
        const default_action = no_underlay_route();
        size = 65536;
    }

    // ---- next hop -----------------------------------------------------------------------------

    bit<16> port_mtu = 0;

    /// The port, the MACs of the port and of the neighbour behind it, and the largest IP packet
    /// that the port takes, in bytes.
    action forward(PortId_t port, mac_t port_mac, mac_t neighbour_mac, bit<16> mtu) {
        hdr.outer_ethernet.source = port_mac;
        hdr.outer_ethernet.destination = neighbour_mac;
        port_mtu = mtu;
        send_to_port(port);
    }

    action unknown_next_hop() {
        drop(meta, drop_reason_t.unknown_next_hop);
    }

    table next_hop {
        key = { meta.next_hop: exact @name("next_hop"); }
        actions = { forward; @defaultonly unknown_next_hop; }
        const default_action = unknown_next_hop();
        size = 65536;
    }

    apply {
        // A packet that came over IPv4 grows by 20 bytes when it leaves over IPv6. VTEPs don't
        // fragment (RFC 7348, section 4.3).
        if (hdr.outer_ipv4.isValid()) {
            sent_length = (bit<32>) hdr.outer_udp.length + 20;
            underlay_route_v4.apply();
        } else {
            sent_length = (bit<32>) hdr.outer_udp.length + 40;
            underlay_route_v6.apply();
        }
        next_hop.apply();
        if (sent_length > (bit<32>) port_mtu) {
            drop(meta, drop_reason_t.exceeds_mtu);
        }
    }
}

#endif
