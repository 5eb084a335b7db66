// SPDX-License-Identifier: Apache-2.0
//
// Is the header of the packet that an ICMP error quotes right (RFC 5508, section 4, REQ-3)? Its
// payload is not there. The checksum covers options, which are not read.

#ifndef GATEWAY_NAT_QUOTE_P4
#define GATEWAY_NAT_QUOTE_P4

#include "metadata.p4"
#include "verdicts.p4"

control nat_quote_step(in headers_t hdr, inout metadata_t meta) {
    InternetChecksum() sum;

    apply {
        sum.add({ hdr.quoted_ipv4.version, hdr.quoted_ipv4.ihl, hdr.quoted_ipv4.dscp,
                  hdr.quoted_ipv4.ecn, hdr.quoted_ipv4.total_length,
                  hdr.quoted_ipv4.identification, hdr.quoted_ipv4.reserved,
                  hdr.quoted_ipv4.dont_fragment, hdr.quoted_ipv4.more_fragments,
                  hdr.quoted_ipv4.fragment_offset, hdr.quoted_ipv4.ttl,
                  hdr.quoted_ipv4.protocol, hdr.quoted_ipv4.checksum,
                  hdr.quoted_ipv4.source, hdr.quoted_ipv4.destination });
        if (hdr.quoted_ipv4.version != 4 || hdr.quoted_ipv4.ihl < 5
            || hdr.quoted_ipv4.ihl == 5 && sum.get() != 0) {
            drop(meta, drop_reason_t.nat_quote);
        }
    }
}

#endif
