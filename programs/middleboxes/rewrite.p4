// SPDX-License-Identifier: Apache-2.0
//
// Which bytes does a forwarded packet change? The TTL, and in a translated packet address and port
// of one side. The sums are additions with carries, because a switch computes checksums only in its
// parser and deparser.

#ifndef MIDDLEBOXES_REWRITE_P4
#define MIDDLEBOXES_REWRITE_P4

#include "headers.p4"

/// Returns the sum of two words in one's complement (RFC 1071).
bit<16> add_words(in bit<16> a, in bit<16> b) {
    bit<17> sum = (bit<17>) a + (bit<17>) b;
    return sum[15:0] + (bit<16>) sum[16:16];
}

/// Returns by how much the sum over a packet changes with an address and a port (RFC 1624,
/// equation 3: ~m + m').
bit<16> sum_difference(in ipv4_t old_address, in bit<16> old_port,
                       in ipv4_t new_address, in bit<16> new_port) {
    bit<16> address = add_words(add_words(~old_address[31:16], ~old_address[15:0]),
                                add_words(new_address[31:16], new_address[15:0]));
    return add_words(address, add_words(~old_port, new_port));
}

/// One hop fewer, for packets that are passed on as they are. The word of TTL and protocol
/// decreases by 0x0100, so the sum changes by 0xfeff.
control decrement_ttl(inout headers_t hdr) {
    apply {
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
        hdr.ipv4.checksum = ~add_words(~hdr.ipv4.checksum, 0xfeff);
    }
}

/// One hop fewer, and another source (`of_source` is 1) or destination, which changes the sum over
/// the packet by `difference`.
control translate(inout headers_t hdr, in bit<1> of_source, in ipv4_t address, in bit<16> port,
                  in bit<16> difference) {
    InternetChecksum() header_sum;

    apply {
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
        if (of_source == 1)
            hdr.ipv4.source = address;
        else
            hdr.ipv4.destination = address;
        // The parser verified the old checksum, so a new one hides no corruption.
        header_sum.add({ hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.dscp_ecn, hdr.ipv4.total_length,
                         hdr.ipv4.identification, hdr.ipv4.reserved, hdr.ipv4.dont_fragment,
                         hdr.ipv4.more_fragments, hdr.ipv4.fragment_offset, hdr.ipv4.ttl,
                         hdr.ipv4.protocol, hdr.ipv4.source, hdr.ipv4.destination });
        hdr.ipv4.checksum = header_sum.get();
        if (hdr.udp.isValid()) {
            // 0 means that there is no checksum, so a checksum of 0 is sent as 0xffff (RFC 768).
            if (hdr.udp.checksum != 0) {
                hdr.udp.checksum = ~add_words(~hdr.udp.checksum, difference);
                if (hdr.udp.checksum == 0)
                    hdr.udp.checksum = 0xffff;
            }
            if (of_source == 1)
                hdr.udp.source = port;
            else
                hdr.udp.destination = port;
        } else {
            hdr.tcp.checksum = ~add_words(~hdr.tcp.checksum, difference);
            if (of_source == 1)
                hdr.tcp.source = port;
            else
                hdr.tcp.destination = port;
        }
    }
}

#endif
