// SPDX-License-Identifier: Apache-2.0
//
// What does a host with IPv4 alone get in the place of a VM's IPv6 packet? An IPv4 header in the place of the
// tunnel and the IPv6 header (RFC 7915, section 5.1), and checksums of layer 4 that are corrected by the
// difference of both pseudo-headers (RFC 1624). The payload is not read.
//
//   DSCP, ECN        copied
//   TTL              the hop limit, which `inner_rewrite` has decremented
//   DF               clear up to 1,260 bytes, because a host with IPv6 does not send less than 1,280 (RFC
//                    8200, section 5), and a link over IPv4 may carry less
//   identification   of a packet that routers may fragment, the checksum of layer 4: it differs from packet to
//                    packet like a number drawn at random, and needs no state

#ifndef GATEWAY_NAT64_DEPARTURE_P4
#define GATEWAY_NAT64_DEPARTURE_P4

#include "metadata.p4"
#include "nat64_error.p4"
#include "nat_flow.p4"

/// The longest IPv4 packet of a host with IPv6 that need not find out the MTU of its path: 1,280 - 20.
const bit<16> NAT64_MAY_FRAGMENT = 1260;

/// Prepares the outer header for `underlay`. The IPv6 packet stays as it is, because an ICMPv6 error quotes it.
control nat64_path_step(inout headers_t hdr, inout metadata_t meta) {
    apply {
        if (hdr.outer_udp.length != hdr.inner_ipv6.payload_length + 70) {
            meta.trailer = true;
        }
        hdr.outer_ipv6.setInvalid();
        hdr.outer_ipv4.setValid();
        hdr.outer_ipv4.destination = hdr.inner_ipv6.destination[31:0];
        hdr.outer_udp.length = hdr.inner_ipv6.payload_length;   // 20 bytes less than over IPv6
    }
}

control nat64_departure_step(inout headers_t hdr, inout metadata_t meta, in nat_flow_t nat) {
    nat64_error_to_host_step() error_to_host;
    InternetChecksum() ip_sum;
    InternetChecksum() sum;
    bit<16> new_checksum;
    bit<16> length;
    bit<16> length_change;   // of the quotation of an ICMP error, which has an IPv4 header, too

    apply {
        // ---- layer 4 ------------------------------------------------------------------------------
        new_checksum = 0;
        length_change = 0;
        if (nat.is_error) {
            length_change = 20;
            error_to_host.apply(hdr, meta, nat, new_checksum);
        } else if (nat.protocol == PROTOCOL_ICMP) {
            // ICMP has no pseudo-header (RFC 792), ICMPv6 has one (RFC 4443, section 2.3).
            sum.subtract({ hdr.l4_icmp.checksum, hdr.l4_icmp.type, hdr.l4_icmp.code, hdr.l4_icmp.identifier,
                           hdr.inner_ipv6.source, hdr.inner_ipv6.destination, hdr.inner_ipv6.payload_length,
                           (bit<16>) PROTOCOL_ICMPV6 });
            sum.add({ ICMP_ECHO_REQUEST, 8w0, nat.new_port });
            new_checksum = sum.get();
            hdr.l4_icmp.type = ICMP_ECHO_REQUEST;
            hdr.l4_icmp.code = 0;
            hdr.l4_icmp.identifier = nat.new_port;
            hdr.l4_icmp.checksum = new_checksum;
        } else {
            sum.subtract({ hdr.inner_ipv6.source, hdr.inner_ipv6.destination, nat.local_port });
            sum.add({ nat.new_address, nat.remote, nat.new_port });
            if (nat.protocol == PROTOCOL_TCP) {
                sum.subtract({ hdr.l4_rest.checksum });
                new_checksum = sum.get();
                hdr.l4_rest.checksum = new_checksum;
            } else {
                sum.subtract({ hdr.l4.checksum });
                new_checksum = sum.get();
                if (new_checksum == 0) {
                    new_checksum = 0xffff;   // RFC 768
                }
                hdr.l4.checksum = new_checksum;
            }
            hdr.l4.source = nat.new_port;
        }

        // ---- IPv4 ---------------------------------------------------------------------------------
        length = hdr.inner_ipv6.payload_length + 20 - length_change;
        hdr.outer_ipv4.version = 4;
        hdr.outer_ipv4.ihl = 5;
        hdr.outer_ipv4.dscp = hdr.inner_ipv6.dscp;
        hdr.outer_ipv4.ecn = hdr.inner_ipv6.ecn;
        hdr.outer_ipv4.total_length = length;
        hdr.outer_ipv4.identification = 0;   // never fragmented: RFC 6864, section 4.1
        hdr.outer_ipv4.reserved = 0;
        hdr.outer_ipv4.dont_fragment = 1;
        if (length <= NAT64_MAY_FRAGMENT) {
            hdr.outer_ipv4.dont_fragment = 0;
            hdr.outer_ipv4.identification = new_checksum;
        }
        hdr.outer_ipv4.more_fragments = 0;
        hdr.outer_ipv4.fragment_offset = 0;
        hdr.outer_ipv4.ttl = hdr.inner_ipv6.hop_limit;
        hdr.outer_ipv4.protocol = meta.protocol == PROTOCOL_ICMPV6 ? PROTOCOL_ICMP : meta.protocol;
        hdr.outer_ipv4.source = nat.new_address;
        ip_sum.add({ hdr.outer_ipv4.version, hdr.outer_ipv4.ihl, hdr.outer_ipv4.dscp, hdr.outer_ipv4.ecn,
                     hdr.outer_ipv4.total_length, hdr.outer_ipv4.identification, hdr.outer_ipv4.reserved,
                     hdr.outer_ipv4.dont_fragment, hdr.outer_ipv4.more_fragments,
                     hdr.outer_ipv4.fragment_offset, hdr.outer_ipv4.ttl, hdr.outer_ipv4.protocol,
                     hdr.outer_ipv4.source, hdr.outer_ipv4.destination });
        hdr.outer_ipv4.checksum = ip_sum.get();

        // ---- frame --------------------------------------------------------------------------------
        // Padding and bytes behind the tunnel are not sent.
        if (meta.trailer) {
            if (meta.vid == 0) {
                truncate(14 + (bit<32>) length);
            } else {
                truncate(18 + (bit<32>) length);
            }
        }
        meta.mss_v4 = meta.mss_v6;   // the host's segments come to the VM over IPv6
        nat64_passed.count(0);
        hdr.outer_ethernet.ether_type = ETHERTYPE_IPV4;
        hdr.outer_udp.setInvalid();
        hdr.vxlan.setInvalid();
        hdr.inner_ethernet.setInvalid();
        hdr.inner_ipv6.setInvalid();
    }
}

#endif
