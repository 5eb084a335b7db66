// SPDX-License-Identifier: Apache-2.0
//
// What does the ICMP error look like? It quotes the dropped packet as it was received, behind an IP
// header of its own. `inner_bytes` is the length of both.

#ifndef GATEWAY_ICMP_ERROR_P4
#define GATEWAY_ICMP_ERROR_P4

#include "icmp_source.p4"
#include "metadata.p4"
#include "verdicts.p4"

control icmp_error_step(inout headers_t hdr, inout metadata_t meta, in gateway_address_t own,
                        out bit<16> inner_bytes) {
    InternetChecksum() header_sum;
    InternetChecksum() sum;
    bit<16> inner_length;   // of the ICMP message with its IP header

    apply {
        // ---- message ----------------------------------------------------------------------------
        hdr.icmp.setValid();
        hdr.icmp.code = 0;
        hdr.icmp.rest = (bit<32>) hdr.icmp_task.mtu;
        if (hdr.quoted_ipv4.isValid()) {
            hdr.icmp.type = 3;
            if (hdr.icmp_task.cause == icmp_cause_t.time_exceeded) {
                hdr.icmp.type = 11;
            } else if (hdr.icmp_task.cause == icmp_cause_t.too_big) {
                hdr.icmp.code = 4;
            } else if (hdr.icmp_task.cause == icmp_cause_t.unknown_vm) {
                hdr.icmp.code = 1;
            } else if (hdr.icmp_task.cause == icmp_cause_t.prohibited) {
                hdr.icmp.code = 13;
            } else if (hdr.icmp_task.cause == icmp_cause_t.no_service) {
                hdr.icmp.code = 3;
            }
        } else {
            hdr.icmp.type = 1;
            if (hdr.icmp_task.cause == icmp_cause_t.time_exceeded) {
                hdr.icmp.type = 3;
            } else if (hdr.icmp_task.cause == icmp_cause_t.too_big) {
                hdr.icmp.type = 2;
            } else if (hdr.icmp_task.cause == icmp_cause_t.unknown_vm) {
                hdr.icmp.code = 3;
            } else if (hdr.icmp_task.cause == icmp_cause_t.prohibited) {
                hdr.icmp.code = 1;
            }
        }
        sum.add({ hdr.icmp.type, hdr.icmp.code, hdr.icmp.rest });

        // ---- IP header --------------------------------------------------------------------------
        if (hdr.quoted_ipv4.isValid()) {
            meta.protocol = PROTOCOL_ICMP;
            inner_length = 48 + meta.quoted;
            hdr.inner_ipv4.setValid();
            hdr.inner_ipv4.version = 4;
            hdr.inner_ipv4.ihl = 5;
            hdr.inner_ipv4.dscp = 48;           // internetwork control (RFC 1812, section 4.3.2.5)
            hdr.inner_ipv4.ecn = ecn_t.not_ect;
            hdr.inner_ipv4.total_length = inner_length;
            hdr.inner_ipv4.identification = 0;  // never fragmented: RFC 6864, section 4.1
            hdr.inner_ipv4.reserved = 0;
            hdr.inner_ipv4.dont_fragment = 1;
            hdr.inner_ipv4.more_fragments = 0;
            hdr.inner_ipv4.fragment_offset = 0;
            hdr.inner_ipv4.ttl = 64;
            hdr.inner_ipv4.protocol = PROTOCOL_ICMP;
            hdr.inner_ipv4.source = own.v4;
            hdr.inner_ipv4.destination = hdr.quoted_ipv4.source;
            header_sum.add({ hdr.inner_ipv4.version, hdr.inner_ipv4.ihl, hdr.inner_ipv4.dscp,
                             hdr.inner_ipv4.ecn, hdr.inner_ipv4.total_length,
                             hdr.inner_ipv4.identification, hdr.inner_ipv4.reserved,
                             hdr.inner_ipv4.dont_fragment, hdr.inner_ipv4.more_fragments,
                             hdr.inner_ipv4.fragment_offset, hdr.inner_ipv4.ttl,
                             hdr.inner_ipv4.protocol, hdr.inner_ipv4.source,
                             hdr.inner_ipv4.destination });
            hdr.inner_ipv4.checksum = header_sum.get();
            sum.add({ hdr.quoted_ipv4.version, hdr.quoted_ipv4.ihl, hdr.quoted_ipv4.dscp,
                      hdr.quoted_ipv4.ecn, hdr.quoted_ipv4.total_length,
                      hdr.quoted_ipv4.identification, hdr.quoted_ipv4.reserved,
                      hdr.quoted_ipv4.dont_fragment, hdr.quoted_ipv4.more_fragments,
                      hdr.quoted_ipv4.fragment_offset, hdr.quoted_ipv4.ttl,
                      hdr.quoted_ipv4.protocol, hdr.quoted_ipv4.checksum,
                      hdr.quoted_ipv4.source, hdr.quoted_ipv4.destination });
        } else {
            meta.protocol = PROTOCOL_ICMPV6;
            inner_length = 88 + meta.quoted;
            hdr.inner_ipv6.setValid();
            hdr.inner_ipv6.version = 6;
            hdr.inner_ipv6.dscp = 48;
            hdr.inner_ipv6.ecn = ecn_t.not_ect;
            hdr.inner_ipv6.flow_label = 0;
            hdr.inner_ipv6.payload_length = inner_length - 40;
            hdr.inner_ipv6.next_header = PROTOCOL_ICMPV6;
            hdr.inner_ipv6.hop_limit = 64;
            hdr.inner_ipv6.source = own.v6;
            hdr.inner_ipv6.destination = hdr.quoted_ipv6.source;
            // The pseudo-header (RFC 8200, section 8.1), then the quoted header.
            sum.add({ hdr.inner_ipv6.source, hdr.inner_ipv6.destination,
                      hdr.inner_ipv6.payload_length, (bit<16>) PROTOCOL_ICMPV6 });
            sum.add({ hdr.quoted_ipv6.version, hdr.quoted_ipv6.dscp, hdr.quoted_ipv6.ecn,
                      hdr.quoted_ipv6.flow_label, hdr.quoted_ipv6.payload_length,
                      hdr.quoted_ipv6.next_header, hdr.quoted_ipv6.hop_limit,
                      hdr.quoted_ipv6.source, hdr.quoted_ipv6.destination });
        }

        // ---- quoted bytes -----------------------------------------------------------------------
        if (hdr.quote_512.isValid()) { sum.add({ hdr.quote_512.bytes }); }
        if (hdr.quote_256.isValid()) { sum.add({ hdr.quote_256.bytes }); }
        if (hdr.quote_128.isValid()) { sum.add({ hdr.quote_128.bytes }); }
        if (hdr.quote_64.isValid())  { sum.add({ hdr.quote_64.bytes }); }
        if (hdr.quote_32.isValid())  { sum.add({ hdr.quote_32.bytes }); }
        if (hdr.quote_16.isValid())  { sum.add({ hdr.quote_16.bytes }); }
        if (hdr.quote_8.isValid())   { sum.add({ hdr.quote_8.bytes }); }
        if (hdr.quote_4.isValid())   { sum.add({ hdr.quote_4.bytes }); }
        if (hdr.quote_2.isValid())   { sum.add({ hdr.quote_2.bytes }); }
        if (hdr.quote_1.isValid())   { sum.add({ hdr.quote_1.bytes, 8w0 }); }
        hdr.icmp.checksum = sum.get();

        inner_bytes = inner_length;
    }
}

#endif
