// SPDX-License-Identifier: Apache-2.0
//
// How does the packet reach the outer destination: over which equal-cost path, port and neighbour?
// The underlay is routed as by any IP router. Its entries come from BGP or from the region's
// servers, independently of entries of tenants. A link that is lost changes next hops alone.
//
// ECMP needs no table of its own. A group is a range of 2^n next hops, and a route has the start
// and the size of the range. Selection is therefore a mask without division, which every tier
// supports, and needs no further lookup. The weight of a next hop is its number of slots in the
// range. The removal of a next hop moves only the flows of its slots. A group changes in the same
// write batch as other entries.

#ifndef GATEWAY_UNDERLAY_P4
#define GATEWAY_UNDERLAY_P4

#include "metadata.p4"

control underlay_step(inout headers_t hdr, inout metadata_t meta, in pna_main_input_metadata_t istd) {
    bit<32> sent_length;           // length of the IP packet in bytes
    bit<16> path_mtu = 0xffff;     // longest IP packet that passes all links of the path

    // ---- route ------------------------------------------------------------------------------

    action via_next_hop(next_hop_t next_hop) {
        meta.next_hop = next_hop;
    }

    /// Selects one of the next hops from `first` on. `mask` is the size of the group minus 1; the
    /// size is a power of two.
    action via_group(next_hop_t first, bit<16> mask) {
        // Uses the upper half of the hash, because the lower half becomes the UDP source port,
        // which the next routers hash again.
        meta.next_hop = first + (next_hop_t) (meta.flow_hash[31:16] & mask);
    }

    /// As `via_next_hop`. The path carries IP packets of at most `mtu` bytes.
    action via_limited_next_hop(next_hop_t next_hop, bit<16> mtu) {
        meta.next_hop = next_hop;
        path_mtu = mtu;
    }

    /// As `via_group`. The path carries IP packets of at most `mtu` bytes.
    action via_limited_group(next_hop_t first, bit<16> mask, bit<16> mtu) {
        meta.next_hop = first + (next_hop_t) (meta.flow_hash[31:16] & mask);
        path_mtu = mtu;
    }

    action no_underlay_route() {
        drop(meta, drop_reason_t.no_underlay_route);
    }

    table underlay_route_v4 {
        key = { hdr.outer_ipv4.destination: lpm @name("destination"); }
        actions = {
            via_next_hop; via_group; via_limited_next_hop; via_limited_group;
            @defaultonly no_underlay_route;
        }
        const default_action = no_underlay_route();
        size = 65536;
    }

    table underlay_route_v6 {
        key = { hdr.outer_ipv6.destination: lpm @name("destination"); }
        actions = {
            via_next_hop; via_group; via_limited_next_hop; via_limited_group;
            @defaultonly no_underlay_route;
        }
        const default_action = no_underlay_route();
        size = 65536;
    }

    // ---- next hop -----------------------------------------------------------------------------

    bit<16> port_mtu = 0;
    bit<16> tenant_mtu;   // longest inner packet that passes

    /// Sets the port, the MACs of the port and of its neighbour, and the maximum length of an IP
    /// packet on the port in bytes.
    action forward(PortId_t port, mac_t port_mac, mac_t neighbour_mac, bit<16> mtu) {
        hdr.outer_ethernet.source = port_mac;
        hdr.outer_ethernet.destination = neighbour_mac;
        meta.vid = 0;
        port_mtu = mtu;
        send_to_port(port);
    }

    /// As `forward`, in a VLAN. `vlan_tag` adds the tag, because the egress of a chip, which starts
    /// behind this table, would have to parse it.
    action forward_tagged(PortId_t port, mac_t port_mac, mac_t neighbour_mac, bit<16> mtu, bit<12> vid) {
        hdr.outer_ethernet.source = port_mac;
        hdr.outer_ethernet.destination = neighbour_mac;
        meta.vid = vid;
        port_mtu = mtu;
        send_to_port(port);
    }

    /// The MAC address of the neighbour on this port is not known. The control plane asks for it;
    /// the port tells where.
    action resolve(PortId_t port) {
        drop(meta, drop_reason_t.neighbour_unresolved);
    }

    /// The link is down, and no other path leads to the destination.
    action path_down() {
        drop(meta, drop_reason_t.path_down);
    }

    action unknown_next_hop() {
        drop(meta, drop_reason_t.unknown_next_hop);
    }

    table next_hop {
        key = { meta.next_hop: exact @name("next_hop"); }
        actions = { forward; forward_tagged; resolve; path_down; @defaultonly unknown_next_hop; }
        const default_action = unknown_next_hop();
        size = 65536;
    }

    apply {
        // A packet from IPv4 grows by 20 bytes when it leaves over IPv6. VTEPs do not fragment (RFC
        // 7348, section 4.3).
        if (hdr.outer_ipv4.isValid()) {
            sent_length = (bit<32>) hdr.outer_udp.length + 20;
            underlay_route_v4.apply();
        } else {
            sent_length = (bit<32>) hdr.outer_udp.length + 40;
            underlay_route_v6.apply();
        }
        next_hop.apply();
        path_mtu = path_mtu < port_mtu ? path_mtu : port_mtu;
        // Of a super-frame, the longest segment has to fit.
        if (sent_length > (bit<32>) path_mtu + (bit<32>) istd.segment_excess) {
            if (istd.pass == FIRST_PASS) {
                // 50 bytes of tunnel over IPv4, 70 over IPv6 (Ethernet of the tenant included).
                tenant_mtu = path_mtu - 70;
                if (hdr.outer_ipv4.isValid()) {
                    tenant_mtu = path_mtu - 50;
                }
                if (!meta.one_pass_only && meta.nat == nat_t.outbound) {
                    tenant_mtu = path_mtu;   // no tunnel
                    if (hdr.outer_ipv4.isValid() && hdr.inner_ipv6.isValid()) {
                        tenant_mtu = path_mtu + 20;   // IPv4 in the place of IPv6
                    }
                }
                drop_and_tell(hdr, meta, drop_reason_t.exceeds_mtu, icmp_cause_t.too_big, tenant_mtu);
            }
            drop(meta, drop_reason_t.exceeds_mtu);
        }
    }
}

#endif
