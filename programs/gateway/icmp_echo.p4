// SPDX-License-Identifier: Apache-2.0
//
// Does the gateway answer a packet to its own address in a subnet? It answers whole echo requests
// (RFC 792, RFC 4443, section 4.2), if the VPC asks for it, and drops all else. `inner_bytes` is
// the length of the reply with its IP header.

#ifndef GATEWAY_ICMP_ECHO_P4
#define GATEWAY_ICMP_ECHO_P4

#include "metadata.p4"
#include "verdicts.p4"

control icmp_echo_step(inout headers_t hdr, inout metadata_t meta, in pna_main_input_metadata_t istd,
                       out bit<16> inner_bytes) {
    InternetChecksum() header_sum;
    InternetChecksum() update;
    ipv4_t from_v4;
    ipv6_t from_v6;
    bool   is_request;

    apply {
        is_request = istd.parser_error == error.NoError
                  && hdr.icmp_task.fragment == (bit<2>) fragment_t.whole
                  && hdr.inner_ethernet.destination[40:40] == 0
                  && hdr.icmp.code == 0;
        if (hdr.inner_ipv4.isValid()) {
            is_request = is_request && hdr.inner_ipv4.protocol == PROTOCOL_ICMP && hdr.icmp.type == 8
                      && hdr.inner_ipv4.ihl == 5 && hdr.inner_ipv4.total_length >= 28;
        } else {
            is_request = is_request && hdr.inner_ipv6.next_header == PROTOCOL_ICMPV6
                      && hdr.icmp.type == 128 && hdr.inner_ipv6.payload_length >= 8;
        }
        if (!is_request) {
            drop(meta, drop_reason_t.gateway_closed);
        }

        // RFC 1624. The pseudo-header of ICMPv6 keeps its sum when both addresses change places.
        update.subtract({ hdr.icmp.checksum, hdr.icmp.type, hdr.icmp.code });
        if (hdr.inner_ipv4.isValid()) {
            hdr.icmp.type = 0;
            meta.protocol = PROTOCOL_ICMP;
            inner_bytes = hdr.inner_ipv4.total_length;
            from_v4 = hdr.inner_ipv4.source;
            hdr.inner_ipv4.source = hdr.inner_ipv4.destination;
            hdr.inner_ipv4.destination = from_v4;
            hdr.inner_ipv4.ecn = ecn_t.not_ect;
            hdr.inner_ipv4.ttl = 64;
            header_sum.add({ hdr.inner_ipv4.version, hdr.inner_ipv4.ihl, hdr.inner_ipv4.dscp,
                             hdr.inner_ipv4.ecn, hdr.inner_ipv4.total_length,
                             hdr.inner_ipv4.identification, hdr.inner_ipv4.reserved,
                             hdr.inner_ipv4.dont_fragment, hdr.inner_ipv4.more_fragments,
                             hdr.inner_ipv4.fragment_offset, hdr.inner_ipv4.ttl,
                             hdr.inner_ipv4.protocol, hdr.inner_ipv4.source,
                             hdr.inner_ipv4.destination });
            hdr.inner_ipv4.checksum = header_sum.get();
        } else {
            hdr.icmp.type = 129;
            meta.protocol = PROTOCOL_ICMPV6;
            inner_bytes = hdr.inner_ipv6.payload_length + 40;
            from_v6 = hdr.inner_ipv6.source;
            hdr.inner_ipv6.source = hdr.inner_ipv6.destination;
            hdr.inner_ipv6.destination = from_v6;
            hdr.inner_ipv6.ecn = ecn_t.not_ect;
            hdr.inner_ipv6.hop_limit = 64;
        }
        update.add({ hdr.icmp.type, hdr.icmp.code });
        hdr.icmp.checksum = update.get();
    }
}

#endif
