// SPDX-License-Identifier: Apache-2.0
//
// Which session does a VM's packet to a host with IPv4 alone belong to? As `nat_flow`, of an IPv6 packet: the
// session has the protocol and the address that the host has. `nat_flow` finds the session of the host's
// packets, which are IPv4.
//
// A host gets what has a counterpart over IPv4 (RFC 7915, section 5): TCP, UDP, echo requests, and ICMPv6
// errors about its own packets.

#ifndef GATEWAY_NAT64_FLOW_P4
#define GATEWAY_NAT64_FLOW_P4

#include "metadata.p4"
#include "nat_flow.p4"
#include "verdicts.p4"

control nat64_flow_step(in headers_t hdr, inout metadata_t meta, inout nat_flow_t nat) {
    apply {
        if (meta.fragment != fragment_t.whole) {
            drop(meta, drop_reason_t.nat64_fragment);
        }
        // A length that IPv4 cannot have. Only a super-frame has it.
        if (hdr.inner_ipv6.payload_length > 0xffff - 20) {
            drop(meta, drop_reason_t.exceeds_mtu);
        }
        // Headers between IPv6 and layer 4 have no counterpart.
        if (meta.extensions != 0) {
            drop(meta, drop_reason_t.nat_protocol);
        }
        nat.vpc = meta.vpc;
        nat.is_outbound = 1;
        nat.in_vpc = 0;
        nat.is_error = false;
        nat.opens = true;
        nat.protocol = meta.protocol;
        nat.remote = hdr.inner_ipv6.destination[31:0];
        nat.remote_port = 0;
        if (meta.protocol == PROTOCOL_UDP) {
            if (!hdr.l4.isValid()) {
                drop(meta, drop_reason_t.inner_length);
            }
            // Over IPv6 UDP has a checksum (RFC 8200, section 8.1). Without one, a host could not find a
            // change of the addresses, which the checksum of the IPv6 header does not cover.
            if (hdr.l4.checksum == 0) {
                drop(meta, drop_reason_t.nat64_checksum);
            }
            nat.local_port = hdr.l4.source;
            nat.remote_port = hdr.l4.destination;
        } else if (meta.protocol == PROTOCOL_TCP) {
            if (!hdr.l4_rest.isValid()) {
                drop(meta, drop_reason_t.inner_length);
            }
            nat.local_port = hdr.l4.source;
            nat.remote_port = hdr.l4.destination;
            nat.opens = (hdr.l4_rest.flags & (TCP_SYN | TCP_ACK | TCP_RST)) == TCP_SYN;
        } else if (meta.protocol == PROTOCOL_ICMPV6 && hdr.l4_icmp.isValid()) {
            nat.protocol = PROTOCOL_ICMP;
            if (hdr.l4_icmp.type == ICMPV6_ECHO_REQUEST) {
                nat.local_port = hdr.l4_icmp.identifier;
            } else if (hdr.l4_icmp.type >= ICMPV6_UNREACHABLE && hdr.l4_icmp.type <= ICMPV6_PARAMETER_PROBLEM) {
                // About a packet of the host that has come to this VM.
                nat.is_error = true;
                nat.opens = false;
                if (!hdr.quoted_ipv6.isValid() || hdr.quoted_ipv6.version != 6
                    || hdr.quoted_ipv6.destination != hdr.inner_ipv6.source
                    || hdr.quoted_ipv6.source != hdr.inner_ipv6.destination) {
                    drop(meta, drop_reason_t.nat_quote);
                }
                nat.protocol = hdr.quoted_ipv6.next_header;
                if (hdr.quoted_l4.isValid()) {
                    nat.local_port = hdr.quoted_l4.destination;
                    nat.remote_port = hdr.quoted_l4.source;
                } else if (hdr.quoted_echo.isValid() && hdr.quoted_echo.type == ICMPV6_ECHO_REPLY) {
                    nat.protocol = PROTOCOL_ICMP;
                    nat.local_port = hdr.quoted_echo.identifier;
                } else {
                    drop(meta, drop_reason_t.nat_quote);
                }
            } else {
                drop(meta, drop_reason_t.nat_protocol);
            }
        } else {
            drop(meta, drop_reason_t.nat_protocol);
        }
    }
}

#endif
