// SPDX-License-Identifier: Apache-2.0
//
// Which number and which public addresses has a VM that sends to a host with IPv4 alone? The destination is
// the host's address behind a prefix of 96 bits (RFC 6052, section 2.2), to which a route of the VPC
// leads (`nat64` in routing.p4).
//
// A session has room for a VM's IPv4 address. A VM has a number in its place: it is below 2^20, and so
// like an address in 0.0.0.0/8, which no VM has (inner_checks.p4). So sessions over IPv6 have the table,
// the pool of ports and the states of those over IPv4.

#ifndef GATEWAY_NAT64_SOURCE_P4
#define GATEWAY_NAT64_SOURCE_P4

#include "metadata.p4"
#include "nat_flow.p4"
#include "verdicts.p4"

/// The first of these VMs in the pool of ports: those of subnets of IPv4 come before it.
const bit<32> NAT64_FIRST_SUBSCRIBER = 0x1000000;

control nat64_source_step(in headers_t hdr, inout metadata_t meta, inout nat_flow_t nat) {
    ipv4_t host;

    /// A VM, with its number. The other parameters are those of `translate_subnet` (nat_source.p4).
    action translate_v6(bit<32> number, ipv4_t first_public, bit<32> first_number, bit<32> count, bit<32> blocks) {
        nat.kind = nat_kind_t.nat64;
        nat.local = number;
        nat.subscriber = NAT64_FIRST_SUBSCRIBER + number;
        nat.first_public = first_public;
        nat.first_number = first_number;
        nat.public_count = count;
        nat.max_blocks = blocks;
    }

    action no_nat() {
        drop(meta, drop_reason_t.no_nat);
    }

    /// One entry for each address of a VM.
    table nat64_source {
        key = {
            meta.vpc:              exact @name("vpc");
            hdr.inner_ipv6.source: exact @name("source");
        }
        actions = { translate_v6; @defaultonly no_nat; }
        const default_action = no_nat();
        size = 1048576;
    }

    apply {
        nat64_source.apply();
        // As `inner_checks` for destinations over IPv4.
        host = hdr.inner_ipv6.destination[31:0];
        if (host[31:24] == 0 || host[31:24] == 127 || host[31:16] == 0xa9fe || host[31:29] == 7) {
            drop(meta, drop_reason_t.nat64_address);
        }
    }
}

#endif
