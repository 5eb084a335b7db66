// SPDX-License-Identifier: Apache-2.0
//
// Which backend gets the packet? The smallest load balancer: a hash of source and destination
// chooses a backend, and a table remembers the choice. Answers pass as they are.

#include <core.p4>
#include <pna.p4>

#include "../headers.p4"
#include "../parser.p4"
#include "../arrival.p4"
#include "../rewrite.p4"

/// Pairs of addresses that have a backend.
#ifndef ASSIGNMENTS
#define ASSIGNMENTS 65536
#endif

/// Expire time profile of assignments.
const ExpireTimeProfileId_t ASSIGNMENT = (ExpireTimeProfileId_t) 0;

/// Backend of a pair of addresses, and the change of the sum over its packets.
struct backend_t {
    ipv4_t  address;
    mac_t   mac;
    bit<16> difference;
}

control minilb(inout headers_t hdr,
               inout metadata_t meta,
               in pna_main_input_metadata_t istd,
               inout pna_main_output_metadata_t ostd) {
    /// Dropped packets, by the number of their reason.
    Counter<bit<64>, bit<8>>(16, PNA_CounterType_t.PACKETS) drops;
    Hash<bit<16>>(PNA_HashAlgorithm_t.CRC32) address_hash;

    bit<16>   number;
    bool      has_backend;
    backend_t chosen;

    /// The pool has a power of two of numbers, because a switch can take bits of a hash but cannot
    /// divide; `last` is their number minus 1. Several numbers can have one backend.
    action choose(bit<16> last) {
        number = address_hash.get_hash({ hdr.ipv4.source, hdr.ipv4.destination }) & last;
    }

    table pool {
        actions = { choose; }
        default_action = choose(0);
    }

    action backend(ipv4_t address, mac_t mac) {
        has_backend = true;
        chosen.address = address;
        chosen.mac = mac;
    }

    action no_backend() {
        has_backend = false;
    }

    table backends {
        key = { number: exact @name("number"); }
        actions = { @tableonly backend; @defaultonly no_backend; }
        const default_action = no_backend();
        size = 65536;
    }

    action to_backend(ipv4_t address, mac_t mac, bit<16> difference) {
        chosen = { address, mac, difference };
    }

    /// The first packet between two addresses remembers the backend.
    action assign() {
        if (!has_backend) {
            meta.drop_reason = drop_reason_t.no_backend;
        } else {
            chosen.difference = sum_difference(hdr.ipv4.destination, 0, chosen.address, 0);
            bool is_added = add_entry("to_backend", chosen, ASSIGNMENT);
            if (!is_added)
                meta.drop_reason = drop_reason_t.table_full;
        }
    }

    table assignments {
        key = {
            hdr.ipv4.source:      exact @name("source");
            hdr.ipv4.destination: exact @name("destination");
        }
        actions = { @tableonly to_backend; @defaultonly assign; }
        const default_action = assign();
        add_on_miss = true;
        pna_idle_timeout = PNA_IdleTimeout_t.AUTO_DELETE;
        size = ASSIGNMENTS;
    }

    apply {
        arrival.apply(hdr, meta, istd);
        if (meta.drop_reason == drop_reason_t.none && meta.is_outbound == 0) {
            pool.apply();
            backends.apply();
            assignments.apply();
        }
        if (meta.drop_reason != drop_reason_t.none) {
            drops.count((bit<8>) meta.drop_reason);
            drop_packet();
        } else if (meta.is_outbound == 1) {
            decrement_ttl.apply(hdr);
        } else {
            hdr.ethernet.destination = chosen.mac;
            translate.apply(hdr, 0, chosen.address, meta.destination_port, chosen.difference);
        }
    }
}

PNA_NIC(ports_parser(), pre(), minilb(), ports_deparser()) main;
