// SPDX-License-Identifier: Apache-2.0
//
// May a packet to or from an elastic address pass, and what of it depends on the address? The address
// stands for one VM, so there is neither a session nor a port to find: entries alone decide, and all
// protocols and fragments pass. `nat_translate` and `nat_error` then replace only the address, because
// the new port is the old one.
//
// Dropped is what would arrive with a wrong checksum or with an address of the other side: layer 4
// behind IPv4 options, which the parser does not extract; an authentication header, which protects
// the addresses (RFC 4302, section 3.3.3); ICMP messages that quote a packet and are obsolete or
// for one link only.

#ifndef GATEWAY_NAT_ELASTIC_P4
#define GATEWAY_NAT_ELASTIC_P4

#include "metadata.p4"
#include "nat_flow.p4"
#include "nat_quote.p4"
#include "verdicts.p4"

control nat_elastic_step(in headers_t hdr, inout metadata_t meta, inout nat_flow_t nat) {
    nat_quote_step() quote;
    ipv4_t quoted_local;

    apply {
        if (hdr.inner_ipv4.ihl != 5 || hdr.inner_ipv4.protocol == PROTOCOL_AUTHENTICATION) {
            drop(meta, drop_reason_t.nat_protocol);
        }
        nat.is_outbound = (bit<1>) (meta.nat == nat_t.outbound);
        nat.is_error = false;
        nat.protocol = hdr.inner_ipv4.protocol;
        nat.local = hdr.inner_ipv4.destination;
        nat.local_port = hdr.l4.destination;
        if (nat.is_outbound == 1) {
            nat.local = hdr.inner_ipv4.source;
            nat.local_port = hdr.l4.source;
        }
        // A later fragment has no layer 4. A first one without its checksum is dropped, too.
        if (meta.fragment == fragment_t.known) {
            nat.local_port = nat.is_outbound == 1 ? meta.l4_source : meta.l4_destination;
            if (nat.protocol == PROTOCOL_ICMP) {
                nat.local_port = meta.identifier;
            }
        } else if (meta.fragment == fragment_t.later) {
        } else if (nat.protocol == PROTOCOL_TCP) {
            if (!hdr.l4_rest.isValid()) {
                drop(meta, drop_reason_t.inner_length);
            }
        } else if (nat.protocol == PROTOCOL_UDP || nat.protocol == PROTOCOL_UDPLITE
                   || nat.protocol == PROTOCOL_DCCP) {
            if (!hdr.l4.isValid()) {
                drop(meta, drop_reason_t.inner_length);
            }
        } else if (nat.protocol == PROTOCOL_ICMP) {
            if (!hdr.l4_icmp.isValid()) {
                drop(meta, drop_reason_t.inner_length);
            }
            nat.local_port = hdr.l4_icmp.identifier;
            if (hdr.l4_icmp.type == ICMP_SOURCE_QUENCH || hdr.l4_icmp.type == ICMP_REDIRECT) {
                drop(meta, drop_reason_t.nat_protocol);
            }
            nat.is_error = hdr.l4_icmp.type == ICMP_UNREACHABLE
                        || hdr.l4_icmp.type == ICMP_TIME_EXCEEDED
                        || hdr.l4_icmp.type == ICMP_PARAMETER_PROBLEM;
            if (nat.is_error) {
                quote.apply(hdr, meta);
                // The quoted packet went the other way.
                nat.protocol = hdr.quoted_ipv4.protocol;
                quoted_local = hdr.quoted_ipv4.source;
                nat.local_port = hdr.quoted_l4.source;
                if (nat.is_outbound == 1) {
                    quoted_local = hdr.quoted_ipv4.destination;
                    nat.local_port = hdr.quoted_l4.destination;
                }
                if (hdr.quoted_echo.isValid()) {
                    nat.local_port = hdr.quoted_echo.identifier;
                }
                if (quoted_local != nat.local) {
                    drop(meta, drop_reason_t.nat_quote);
                }
            }
        }
        nat.new_port = nat.local_port;
    }
}

#endif
