// SPDX-License-Identifier: Apache-2.0
//
// May the inner packet be routed at all? Its addresses must be ones that routers forward, and it
// must have a hop left: the gateway routes between a tenant's networks, so it counts as one hop
// like any router (RFC 1812, section 5.3.1; RFC 8200, section 3). That also ends loops between
// regions. No ICMP "time exceeded" is sent.

#ifndef GATEWAY_INNER_CHECKS_P4
#define GATEWAY_INNER_CHECKS_P4

#include "metadata.p4"

control inner_checks_step(in headers_t hdr, inout metadata_t meta) {
    bit<8> hops_left;
    bool   routable;

    apply {
        if (hdr.inner_ipv4.isValid()) {
            hops_left = hdr.inner_ipv4.ttl;
            // RFC 1812, section 5.3.7 and RFC 6890: not 0.0.0.0/8, 127.0.0.0/8 or 224.0.0.0/3
            // (multicast, reserved, broadcast), neither as source nor as destination.
            routable = hdr.inner_ipv4.source[31:24] != 0
                    && hdr.inner_ipv4.source[31:24] != 127
                    && hdr.inner_ipv4.source[31:29] != 7
                    && hdr.inner_ipv4.destination[31:24] != 0
                    && hdr.inner_ipv4.destination[31:24] != 127
                    && hdr.inner_ipv4.destination[31:29] != 7;
        } else {
            hops_left = hdr.inner_ipv6.hop_limit;
            // RFC 4291: not ::/127 (unspecified, loopback), fe80::/10 (link-local) or ff00::/8
            // (multicast), neither as source nor as destination.
            routable = hdr.inner_ipv6.source[127:1] != 0
                    && hdr.inner_ipv6.source[127:118] != 0x3fa
                    && hdr.inner_ipv6.source[127:120] != 0xff
                    && hdr.inner_ipv6.destination[127:1] != 0
                    && hdr.inner_ipv6.destination[127:118] != 0x3fa
                    && hdr.inner_ipv6.destination[127:120] != 0xff;
        }
        if (!routable) {
            drop(meta, drop_reason_t.inner_address);
        }
        if (hops_left <= 1) {
            drop(meta, drop_reason_t.inner_ttl_expired);
        }
    }
}

#endif
