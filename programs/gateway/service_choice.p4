// SPDX-License-Identifier: Apache-2.0
//
// Which backend takes a new connection? The hash of the flow, or of the client's address, selects one
// of the service's slots, and the slot has a backend. The control plane fills the slots so that a
// change of one backend moves few others (Maglev; docs/decisions/0051-*). An entry has eight slots, so
// there are few entries. A backend that takes no new connections has no slot.
//
// A client can be a backend itself. A packet from its own address would not be accepted, so it gets
// another backend.
//
// Nothing is dropped here, because the packet can be of a connection that has its backend: one that
// takes no new connections.

#ifndef GATEWAY_SERVICE_CHOICE_P4
#define GATEWAY_SERVICE_CHOICE_P4

#include "metadata.p4"
#include "nat_flow.p4"

control service_choice_step(in metadata_t meta, inout nat_flow_t nat) {
    Hash<bit<32>>(PNA_HashAlgorithm_t.CRC32) crc;
    bit<32> chooser;
    bit<32> slot;
    bit<64> numbers;
    bit<8>  number;
    ipv4_t  other;
    bit<16> other_port;

    action no_backend() {
        nat.refusal = drop_reason_t.service_no_backend;
    }

    /// The numbers of the backends of eight slots, that of the first one in the lowest byte.
    action eight_slots(bit<64> backends) {
        numbers = backends;
    }

    table slots {
        key = {
            nat.service_vpc:  exact @name("vpc");
            nat.service:      exact @name("address") @format(IPV4_ADDRESS);
            nat.protocol:     exact @name("protocol");
            nat.service_port: exact @name("port");
            slot[18:3]:       exact @name("eight");
        }
        actions = { eight_slots; @defaultonly no_backend; }
        const default_action = no_backend();
        size = 4194304;
    }

    /// A backend. A client with its address gets `other_address`; 0: the service has no other one.
    action backend(ipv4_t address, bit<16> port, ipv4_t other_address, bit<16> other_backend_port) {
        nat.chosen = address;
        nat.chosen_port = port;
        other = other_address;
        other_port = other_backend_port;
    }

    table backends {
        key = {
            nat.service_vpc:  exact @name("vpc");
            nat.service:      exact @name("address") @format(IPV4_ADDRESS);
            nat.protocol:     exact @name("protocol");
            nat.service_port: exact @name("port");
            number:           exact @name("backend");
        }
        actions = { backend; @defaultonly no_backend; }
        const default_action = no_backend();
        size = 262144;
    }

    apply {
        chooser = meta.flow_hash;
        if (nat.by_client) {
            chooser = nat.remote + meta.hash_secret;
        }
        // The remainder by a prime depends on all bits, so it says nothing about those that select
        // the path (underlay.p4).
        slot = crc.get_hash(32w0, { chooser }, nat.slots);
        nat.is_chosen = true;
        nat.refusal = drop_reason_t.none;
        nat.chosen = 0;
        nat.chosen_port = 0;
        numbers = 0;
        slots.apply();
        if (nat.refusal == drop_reason_t.none) {
            number = (numbers >> (5w0 ++ slot[2:0] << 3))[7:0];
            backends.apply();
            if (nat.chosen == nat.remote && !meta.from_internet) {
                nat.chosen = other;
                nat.chosen_port = other_port;
                if (other == 0) {
                    nat.refusal = drop_reason_t.service_own_backend;
                }
            }
        }
    }
}

#endif
