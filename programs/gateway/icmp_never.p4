// SPDX-License-Identifier: Apache-2.0
//
// May an ICMP error be sent about this packet? RFC 1812, section 4.3.2.7, and RFC 4443, section 2.4
// (e), forbid errors that could multiply packets, or reach a host that did not send the packet.
// Each `if` is one rule.

#ifndef GATEWAY_ICMP_NEVER_P4
#define GATEWAY_ICMP_NEVER_P4

#include "icmp_source.p4"
#include "metadata.p4"
#include "verdicts.p4"

control icmp_never_step(in headers_t hdr, inout metadata_t meta, in gateway_address_t own) {
    bool allowed = true;
    bit<8> type;

    apply {
        type = hdr.icmp_task.l4_type;

        // A fragment other than the first.
        if (hdr.icmp_task.fragment >= (bit<2>) fragment_t.later) {
            allowed = false;
        }
        // A frame to a group or to all.
        if (hdr.inner_ethernet.destination[40:40] == 1) {
            allowed = false;
        }
        // A sender that is a VM, with a source that is in no subnet of its VPC.
        if (hdr.icmp_task.sender == (bit<2>) sender_t.server && !own.in_subnet) {
            allowed = false;
        }
        if (hdr.quoted_ipv4.isValid()) {
            // An ICMP error: destination unreachable, source quench, redirect, time exceeded,
            // parameter problem.
            if (hdr.icmp_task.protocol == PROTOCOL_ICMP
                && (type == 3 || type == 4 || type == 5 || type == 11 || type == 12)) {
                allowed = false;
            }
            // A source that is the subnet's broadcast address or the subnet itself. Subnets of one
            // or two addresses have neither (RFC 3021).
            if (hdr.icmp_task.sender == (bit<2>) sender_t.server && own.host_bits > 1
                && ((hdr.quoted_ipv4.source & own.host_bits) == own.host_bits
                    || (hdr.quoted_ipv4.source & own.host_bits) == 0)) {
                allowed = false;
            }
            // A source or a destination that is no single host: 0/8, 127/8, 169.254/16, 224/3.
            // `inner_checks` drops these packets already.
            if (hdr.quoted_ipv4.source[31:24] == 0 || hdr.quoted_ipv4.source[31:24] == 127
                || hdr.quoted_ipv4.source[31:16] == 0xa9fe || hdr.quoted_ipv4.source[31:29] == 7
                || hdr.quoted_ipv4.destination[31:29] == 7) {
                allowed = false;
            }
            // An address of the gateway itself as the source.
            if (hdr.quoted_ipv4.source == own.v4) {
                allowed = false;
            }
        } else {
            // An ICMPv6 error (types below 128), or a redirect.
            if (hdr.icmp_task.protocol == PROTOCOL_ICMPV6 && (type < 128 || type == 137)) {
                allowed = false;
            }
            // A source that is no single host: ::, a group.
            if (hdr.quoted_ipv6.source == 0 || hdr.quoted_ipv6.source[127:120] == 0xff) {
                allowed = false;
            }
            // A destination that is a group.
            if (hdr.quoted_ipv6.destination[127:120] == 0xff) {
                allowed = false;
            }
            // An address of the gateway itself as the source, or no address to answer from.
            if (hdr.quoted_ipv6.source == own.v6 || own.v6 == 0) {
                allowed = false;
            }
        }
        if (!allowed) {
            drop(meta, drop_reason_t.icmp_forbidden);
        }
    }
}

#endif
