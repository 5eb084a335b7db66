// SPDX-License-Identifier: Apache-2.0
//
// How does the packet reach the outer destination: which of several equal paths, which port, which
// neighbour? The underlay is routed as any IP router does it; its entries come from BGP or from
// the region's servers, apart from all tenants' entries.
//
// ECMP is a pair of plain tables instead of an ActionSelector. A group has 2^n buckets, each with
// a next hop. Then picking one takes a mask and no division, which every tier can do; weights
// are numbers of buckets; a next hop that goes away moves the flows of its own buckets and no
// others; and a group changes in the same write batch as all else.

#ifndef GATEWAY_UNDERLAY_P4
#define GATEWAY_UNDERLAY_P4

#include "metadata.p4"

control underlay_step(inout headers_t hdr, inout metadata_t meta) {
    bool    multipath = false;
    bit<16> bucket = 0;

    // ---- route ------------------------------------------------------------------------------

    action via_next_hop(next_hop_t next_hop) {
        meta.next_hop = next_hop;
    }

    action via_group(ecmp_group_t group) {
        meta.ecmp_group = group;
        multipath = true;
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

    // ---- equal-cost paths ---------------------------------------------------------------------

    /// `bucket_mask` is the group's number of buckets less one; the number is a power of two.
    action pick_bucket(bit<16> bucket_mask) {
        // The lower half of the hash goes into the UDP source port, which the routers behind us
        // hash in turn: so this takes the upper half.
        bucket = meta.flow_hash[31:16] & bucket_mask;
    }

    action unknown_ecmp_group() {
        drop(meta, drop_reason_t.unknown_ecmp_group);
    }

    table ecmp_group {
        key = { meta.ecmp_group: exact @name("group"); }
        actions = { pick_bucket; @defaultonly unknown_ecmp_group; }
        const default_action = unknown_ecmp_group();
        size = 4096;
    }

    action empty_ecmp_bucket() {
        drop(meta, drop_reason_t.empty_ecmp_bucket);
    }

    table ecmp_bucket {
        key = {
            meta.ecmp_group: exact @name("group");
            bucket:          exact @name("bucket");
        }
        actions = { via_next_hop; @defaultonly empty_ecmp_bucket; }
        const default_action = empty_ecmp_bucket();
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
        size = 16384;
    }

    apply {
        if (hdr.outer_ipv4.isValid()) {
            underlay_route_v4.apply();
        } else {
            underlay_route_v6.apply();
        }
        if (multipath) {
            ecmp_group.apply();
            ecmp_bucket.apply();
        }
        next_hop.apply();

        // A packet that came over IPv4 grows by 20 bytes when it leaves over IPv6. VTEPs don't
        // fragment (RFC 7348, section 4.3).
        bit<32> sent_length = (bit<32>) hdr.outer_udp.length + 20;
        if (hdr.outer_ipv6.isValid()) {
            sent_length = sent_length + 20;
        }
        if (sent_length > (bit<32>) port_mtu) {
            drop(meta, drop_reason_t.exceeds_mtu);
        }
    }
}

#endif
