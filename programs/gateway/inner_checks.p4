// SPDX-License-Identifier: Apache-2.0
//
// May the inner packet be forwarded? Its addresses must be routable, and its frame must come from a
// single host.
//
// The ranges are those of `crates/region/src/addresses.rs`, which names the source of
// each. A region cannot assign an address that this step drops; a test compares both
// lists.

#ifndef GATEWAY_INNER_CHECKS_P4
#define GATEWAY_INNER_CHECKS_P4

#include "metadata.p4"

control inner_checks_step(in headers_t hdr, inout metadata_t meta) {
    bool usable;

    apply {
        // IEEE 802.3, section 3.2.3: a group address is never a source.
        if (hdr.inner_ethernet.source[40:40] == 1) {
            drop(meta, drop_reason_t.inner_source_mac);
        }
        if (hdr.inner_ipv4.isValid()) {
            // Neither source nor destination may be in 0.0.0.0/8, 127.0.0.0/8, 169.254.0.0/16 or
            // 224.0.0.0/3 (224/4 and 240/4).
            usable = hdr.inner_ipv4.source[31:24] != 0
                  && hdr.inner_ipv4.source[31:24] != 127
                  && hdr.inner_ipv4.source[31:16] != 0xa9fe
                  && hdr.inner_ipv4.source[31:29] != 7
                  && hdr.inner_ipv4.destination[31:24] != 0
                  && hdr.inner_ipv4.destination[31:24] != 127
                  && hdr.inner_ipv4.destination[31:16] != 0xa9fe
                  && hdr.inner_ipv4.destination[31:29] != 7;
            // The usual case is first, because native code takes that path.
            if (usable) {
            } else {
                drop(meta, drop_reason_t.inner_address);
            }
        } else if (hdr.inner_ipv6.isValid()) {
            // Neither may be in ::/96, ::ffff:0:0/96, fe80::/10 or ff00::/8.
            usable = hdr.inner_ipv6.source[127:32] != 0
                  && hdr.inner_ipv6.source[127:32] != 0xffff
                  && hdr.inner_ipv6.source[127:118] != 0x3fa
                  && hdr.inner_ipv6.source[127:120] != 0xff
                  && hdr.inner_ipv6.destination[127:32] != 0
                  && hdr.inner_ipv6.destination[127:32] != 0xffff
                  && hdr.inner_ipv6.destination[127:118] != 0x3fa
                  && hdr.inner_ipv6.destination[127:120] != 0xff;
            if (usable) {
            } else if (meta.protocol == PROTOCOL_ICMPV6 && meta.l4_source == ND_SOLICITATION) {
                meta.asks_neighbour = true;   // `neighbour` ends its processing
            } else {
                drop(meta, drop_reason_t.inner_address);
            }
        } else {
            meta.asks_neighbour = true;   // ARP
        }
    }
}

#endif
