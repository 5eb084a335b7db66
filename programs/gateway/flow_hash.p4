// SPDX-License-Identifier: Apache-2.0
//
// Computes one hash of the inner flow from its 5-tuple (with ICMP type and code as ports). All
// packets of a flow have the same hash and take the same path. Fragments of a datagram must take
// one path, although only the first has ports. So the hash of a fragment excludes ports, unless all
// fragments of its datagram have them (fragments.p4).
//
// A CRC is linear: a sender can choose flows with one hash, and a secret that is added
// to the CRC, or hashed before the flow, moves all of them alike. So the secret is added to the words
// of the flow, with carry: which flows have one hash then depends on it.

#ifndef GATEWAY_FLOW_HASH_P4
#define GATEWAY_FLOW_HASH_P4

#include "metadata.p4"

control flow_hash_step(in headers_t hdr, inout metadata_t meta) {
    Hash<bit<32>>(PNA_HashAlgorithm_t.CRC32) crc;
    bit<32> ports;
    bit<32> secret;

    /// Sets the secret. With 0, the hash is the CRC of the 5-tuple.
    action set_secret(bit<32> value) {
        secret = value;
        if (!meta.one_pass_only) {
            meta.hash_secret = value;
        }
    }

    /// No key: the control plane sets the default action.
    table flow_secret {
        actions = { set_secret; }
        default_action = set_secret(0);
    }

    apply {
        flow_secret.apply();
        ports = 0;
        if (meta.fragment == fragment_t.whole || !meta.one_pass_only && meta.has_datagram) {
            ports = meta.l4_source ++ meta.l4_destination;
        }
        if (hdr.inner_ipv4.isValid()) {
            meta.flow_hash = crc.get_hash({ hdr.inner_ipv4.source + secret,
                                            hdr.inner_ipv4.destination + secret,
                                            meta.protocol, ports + secret });
        } else {
            meta.flow_hash = crc.get_hash({ hdr.inner_ipv6.source[127:32],
                                            hdr.inner_ipv6.source[31:0] + secret,
                                            hdr.inner_ipv6.destination[127:32],
                                            hdr.inner_ipv6.destination[31:0] + secret,
                                            meta.protocol, ports + secret });
        }
    }
}

#endif
