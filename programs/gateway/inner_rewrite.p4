// SPDX-License-Identifier: Apache-2.0
//
// Changes the tenant's packet: the destination MAC, the TTL of a routed packet, the ECN field after
// congestion in the incoming tunnel (RFC 6040), and the checksum. The inner DSCP belongs to the
// tenant and is unchanged.

#ifndef GATEWAY_INNER_REWRITE_P4
#define GATEWAY_INNER_REWRITE_P4

#include "metadata.p4"

control inner_rewrite_step(inout headers_t hdr, inout metadata_t meta) {
    InternetChecksum() checksum;
    InternetChecksum() update;
    ecn_t ecn;

    apply {
        hdr.inner_ethernet.destination = meta.far_mac;

        if (hdr.inner_ipv4.isValid()) {
            ecn = hdr.inner_ipv4.ecn;
        } else {
            ecn = hdr.inner_ipv6.ecn;
        }

        // RFC 6040, section 4.2, figure 4. In other cases the inner field is unchanged.
        if (meta.outer_ecn == ecn_t.ce) {
            if (ecn == ecn_t.not_ect) {
                drop(meta, drop_reason_t.ecn_ce_on_not_ect);
            }
            ecn = ecn_t.ce;
        } else if (meta.outer_ecn == ecn_t.ect_1 && ecn == ecn_t.ect_0) {
            ecn = ecn_t.ect_1;
        }

        if (hdr.inner_ipv4.isValid()) {
            if (hdr.inner_ipv4.ihl != 5) {
                // The checksum covers options, which are not extracted, so it is updated
                // incrementally (RFC 1624).
                update.subtract({ hdr.inner_ipv4.checksum, hdr.inner_ipv4.version, hdr.inner_ipv4.ihl,
                                  hdr.inner_ipv4.dscp, hdr.inner_ipv4.ecn, hdr.inner_ipv4.ttl,
                                  hdr.inner_ipv4.protocol });
                hdr.inner_ipv4.ecn = ecn;
                hdr.inner_ipv4.ttl = hdr.inner_ipv4.ttl - meta.hops;
                update.add({ hdr.inner_ipv4.version, hdr.inner_ipv4.ihl, hdr.inner_ipv4.dscp,
                             hdr.inner_ipv4.ecn, hdr.inner_ipv4.ttl, hdr.inner_ipv4.protocol });
                hdr.inner_ipv4.checksum = update.get();
            } else {
                hdr.inner_ipv4.ecn = ecn;
                hdr.inner_ipv4.ttl = hdr.inner_ipv4.ttl - meta.hops;
                // The parser verified the old checksum, so a new one hides no corruption.
                checksum.add({ hdr.inner_ipv4.version, hdr.inner_ipv4.ihl, hdr.inner_ipv4.dscp,
                               hdr.inner_ipv4.ecn, hdr.inner_ipv4.total_length,
                               hdr.inner_ipv4.identification, hdr.inner_ipv4.reserved,
                               hdr.inner_ipv4.dont_fragment, hdr.inner_ipv4.more_fragments,
                               hdr.inner_ipv4.fragment_offset, hdr.inner_ipv4.ttl,
                               hdr.inner_ipv4.protocol, hdr.inner_ipv4.source,
                               hdr.inner_ipv4.destination });
                hdr.inner_ipv4.checksum = checksum.get();
            }
        } else {
            hdr.inner_ipv6.ecn = ecn;
            hdr.inner_ipv6.hop_limit = hdr.inner_ipv6.hop_limit - meta.hops;
        }
    }
}

#endif
