// SPDX-License-Identifier: Apache-2.0
//
// Sets the outer headers. Earlier steps set the address family, the destination and the MACs. Of
// the received outer headers only DSCP and the lengths are kept, because neither VXLAN nor the
// tenant's packet has changed in size.
//
//   DSCP   as received, because the operator sets it where the packet enters the underlay
//          (RFC 2983, section 3.1, the pipe model)
//   ECN    that of the inner packet (RFC 6040, section 4.1, normal mode)
//   TTL    64
//   source port, flow label
//          from the hash of the inner flow, so that routers spread flows but keep each on one path
//          (RFC 7348, section 5; RFC 6438)
//   UDP checksum
//          0 (RFC 7348, section 5; over IPv6: RFC 6935, RFC 6936)

#ifndef GATEWAY_ENCAP_P4
#define GATEWAY_ENCAP_P4

#include "metadata.p4"

control encap_step(inout headers_t hdr, inout metadata_t meta) {
    /// Packets and bytes forwarded in VXLAN, by source VPC.
    Counter<bit<64>, vpc_t>(1048576, PNA_CounterType_t.PACKETS_AND_BYTES) vpc_forwarded;
    InternetChecksum() checksum;
    ecn_t  ecn;
    ipv4_t own_v4 = 0;
    ipv6_t own_v6 = 0;

    /// Addresses of the gateway: the outer source over IPv4 and over IPv6 (0: none of this family),
    /// and the inner source MAC.
    action set_identity(ipv4_t source_v4, ipv6_t source_v6, mac_t mac) {
        own_v4 = source_v4;
        own_v6 = source_v6;
        hdr.inner_ethernet.source = mac;
    }

    action not_configured() {
        drop(meta, drop_reason_t.not_configured);
    }

    /// No key: the control plane sets the default action.
    table gateway_identity {
        actions = { set_identity; not_configured; }
        default_action = not_configured();
    }

    apply {
        gateway_identity.apply();

        if (hdr.inner_ipv4.isValid()) {
            ecn = hdr.inner_ipv4.ecn;
        } else {
            ecn = hdr.inner_ipv6.ecn;
        }

        if (hdr.outer_ipv4.isValid()) {
            if (own_v4 == 0) {
                drop(meta, drop_reason_t.not_configured);
            }
            hdr.outer_ethernet.ether_type = ETHERTYPE_IPV4;
            hdr.outer_ipv4.version = 4;
            hdr.outer_ipv4.ihl = 5;
            hdr.outer_ipv4.dscp = meta.outer_dscp;
            hdr.outer_ipv4.ecn = ecn;
            hdr.outer_ipv4.total_length = 20 + hdr.outer_udp.length;
            hdr.outer_ipv4.identification = 0;   // never fragmented: RFC 6864, section 4.1
            hdr.outer_ipv4.reserved = 0;
            hdr.outer_ipv4.dont_fragment = 1;
            hdr.outer_ipv4.more_fragments = 0;
            hdr.outer_ipv4.fragment_offset = 0;
            hdr.outer_ipv4.ttl = 64;
            hdr.outer_ipv4.protocol = PROTOCOL_UDP;
            hdr.outer_ipv4.source = own_v4;
            checksum.add({ hdr.outer_ipv4.version, hdr.outer_ipv4.ihl, hdr.outer_ipv4.dscp,
                           hdr.outer_ipv4.ecn, hdr.outer_ipv4.total_length,
                           hdr.outer_ipv4.identification, hdr.outer_ipv4.reserved,
                           hdr.outer_ipv4.dont_fragment, hdr.outer_ipv4.more_fragments,
                           hdr.outer_ipv4.fragment_offset, hdr.outer_ipv4.ttl,
                           hdr.outer_ipv4.protocol, hdr.outer_ipv4.source,
                           hdr.outer_ipv4.destination });
            hdr.outer_ipv4.checksum = checksum.get();
            // Ethernet has 14 bytes, with a tag 18, and IPv4 20 bytes before UDP.
            if (meta.trailer) {
                if (meta.vid == 0) {
                    truncate(34 + (bit<32>) hdr.outer_udp.length);
                } else {
                    truncate(38 + (bit<32>) hdr.outer_udp.length);
                }
            }
        } else {
            if (own_v6 == 0) {
                drop(meta, drop_reason_t.not_configured);
            }
            hdr.outer_ethernet.ether_type = ETHERTYPE_IPV6;
            hdr.outer_ipv6.version = 6;
            hdr.outer_ipv6.dscp = meta.outer_dscp;
            hdr.outer_ipv6.ecn = ecn;
            hdr.outer_ipv6.flow_label = meta.flow_hash[19:0];
            hdr.outer_ipv6.payload_length = hdr.outer_udp.length;
            hdr.outer_ipv6.next_header = PROTOCOL_UDP;
            hdr.outer_ipv6.hop_limit = 64;
            hdr.outer_ipv6.source = own_v6;
            if (meta.trailer) {
                if (meta.vid == 0) {
                    truncate(54 + (bit<32>) hdr.outer_udp.length);
                } else {
                    truncate(58 + (bit<32>) hdr.outer_udp.length);
                }
            }
        }

        hdr.outer_udp.source = 2w3 ++ meta.flow_hash[13:0];   // 49152..65535
        hdr.outer_udp.destination = UDP_PORT_VXLAN;
        hdr.outer_udp.checksum = 0;

        hdr.vxlan.flags = VXLAN_FLAG_I;
        hdr.vxlan.reserved = 0;
        hdr.vxlan.vni = meta.to_vni;
        hdr.vxlan.reserved_2 = 0;

        // An ICMP error or an answer is the gateway's own packet.
        if (!hdr.icmp.isValid() && !hdr.arp.isValid()) {
            vpc_forwarded.count(meta.vpc);
        }
    }
}

#endif
