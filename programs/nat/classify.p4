// SPDX-License-Identifier: Apache-2.0
//
// Which session does the packet belong to? Finds the ports of both sides. An ICMP error belongs to
// the session of the packet that it quotes (RFC 5508, section 4). Drops what a NAT must not forward.

#ifndef NAT_CLASSIFY_P4
#define NAT_CLASSIFY_P4

#include "headers.p4"
#include "parser.p4"

/// Drops the packet for this reason.
#define DROP(reason) { meta.drop_reason = drop_reason_t.reason; drop_packet(); exit; }

/// Finds the ports; `is_outbound` is 1 for a packet from inside.
control classify(inout headers_t hdr, inout metadata_t meta, in bit<1> is_outbound) {
    InternetChecksum() header_sum;

    apply {
        header_sum.add({ hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.dscp_ecn, hdr.ipv4.total_length,
                         hdr.ipv4.identification, hdr.ipv4.reserved, hdr.ipv4.dont_fragment,
                         hdr.ipv4.more_fragments, hdr.ipv4.fragment_offset, hdr.ipv4.ttl,
                         hdr.ipv4.protocol, hdr.ipv4.checksum, hdr.ipv4.source,
                         hdr.ipv4.destination });
        if (header_sum.get() != 0)
            DROP(wrong_checksum)
        if (hdr.ipv4.more_fragments == 1 || hdr.ipv4.fragment_offset != 0)
            DROP(fragment)
        if (hdr.ipv4.ttl <= 1)
            DROP(ttl_expired)

        bit<16> source;
        bit<16> destination;
        meta.is_error = 0;
        meta.opens = is_outbound;
        if (hdr.udp.isValid()) {
            source = hdr.udp.source;
            destination = hdr.udp.destination;
        } else if (hdr.tcp.isValid()) {
            source = hdr.tcp.source;
            destination = hdr.tcp.destination;
            meta.opens = is_outbound & hdr.tcp.syn & ~hdr.tcp.ack & ~hdr.tcp.rst;
        } else if (hdr.echo.isValid()) {
            // The identifier is the port of the side that asks.
            source = is_outbound == 1 ? hdr.echo.identifier : 16w0;
            destination = is_outbound == 1 ? 16w0 : hdr.echo.identifier;
            if ((is_outbound == 1) != (hdr.icmp.type == ICMP_ECHO_REQUEST))
                DROP(other_icmp)
        } else if (hdr.unused.isValid()) {
            meta.is_error = 1;
            meta.opens = 0;
            if (hdr.quoted_ipv4.version != 4)
                DROP(quoted_malformed)
            // The quoted packet went the other way.
            if (hdr.quoted_ports.isValid()) {
                source = hdr.quoted_ports.destination;
                destination = hdr.quoted_ports.source;
            } else if (hdr.quoted_echo.isValid()) {
                source = is_outbound == 1 ? hdr.quoted_echo.identifier : 16w0;
                destination = is_outbound == 1 ? 16w0 : hdr.quoted_echo.identifier;
            } else
                DROP(quoted_malformed)
        } else if (hdr.icmp.isValid())
            DROP(other_icmp)
        else
            DROP(other_protocol)
        meta.port = is_outbound == 1 ? source : destination;
        meta.remote_port = is_outbound == 1 ? destination : source;
    }
}

#endif
