// SPDX-License-Identifier: Apache-2.0
//
// Computes one hash of the inner flow from its 5-tuple (with ICMP type and code as ports). All
// packets of a flow have the same hash and take the same path. Fragments of a datagram must take
// one path, although only the first has ports, so the hash of a fragment excludes ports.

#ifndef GATEWAY_FLOW_HASH_P4
#define GATEWAY_FLOW_HASH_P4

#include "metadata.p4"

control flow_hash_step(in headers_t hdr, inout metadata_t meta) {
    Hash<bit<32>>(PNA_HashAlgorithm_t.CRC32) crc;
    bit<32> ports;

    apply {
        ports = 0;
        if (meta.fragment == fragment_t.whole) {
            ports = meta.l4_source ++ meta.l4_destination;
        }
        if (hdr.inner_ipv4.isValid()) {
            meta.flow_hash = crc.get_hash({ hdr.inner_ipv4.source, hdr.inner_ipv4.destination,
                                            meta.protocol, ports });
        } else {
            meta.flow_hash = crc.get_hash({ hdr.inner_ipv6.source, hdr.inner_ipv6.destination,
                                            meta.protocol, ports });
        }
    }
}

#endif
