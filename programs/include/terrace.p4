// SPDX-License-Identifier: Apache-2.0
//
// Additions of Terrace to PNA for functions with sessions: entries that packets add in pairs, pools
// of ports, and limits on the entries of each tenant. Include it after <pna.p4> or <bmv2/pna.p4>. docs/reference/p4-extensions.md
// explains their meaning, with an example.

#ifndef __TERRACE_P4__
#define __TERRACE_P4__

/// Adds two entries to the table that missed, or none. Allowed where `add_entry` is.
///
/// The first entry has the key that missed, like the entry of `add_entry`. Its twin has the key
/// `twin_key`: a struct or tuple with one field for each key field of the table, in order and of
/// equal width. The actions are two of the table's actions; their parameters are passed as to
/// `add_entry`.
///
/// Twins have one idle time: a hit of either, or a call of `restart_expire_timer` or
/// `set_entry_expire_time` in an action of either, concerns both. Removal of one, by its idle time
/// or by the control plane, removes both. Each counts as an entry of the table's `size`, and each
/// has direct counters of its own.
///
/// Returns false, and adds nothing, if the packet hit, if the table has no room for two entries, if
/// either key is there, or if both keys are equal.
extern bool add_entry_pair<T, K, U>(string action_name,
                                    in T action_params,
                                    in K twin_key,
                                    string twin_action_name,
                                    in U twin_params,
                                    in ExpireTimeProfileId_t expire_time_profile_id);

/// Result of `PortPool.take`.
enum bit<8> PortPoolStatus_t {
    /// A port was taken.
    TAKEN = 0,
    /// No block of ports is free, or none at the address whose ports the subscriber has.
    EMPTY = 1,
    /// All ports of the blocks that the subscriber may have are in use or rest.
    QUOTA = 2,
    /// The pool has no such address, subscriber or space.
    INVALID = 3
}

/// A port of an outside address. Without a port, `address` and `port` are 0.
struct PortLease_t {
    PortPoolStatus_t status;
    /// Number of the address, from 0 on.
    bit<32> address;
    /// 1024 to 65535.
    bit<16> port;
}

/// Outside ports for address translation.
///
/// Ports come in blocks of 64. A block belongs to one subscriber, for all port spaces. All blocks
/// of a subscriber are at one address ("paired", RFC 4787 section 4.1), as long as the calls name a
/// range with this address. A block returns to the pool when no port of it is in use or rests.
///
/// A port that a packet took is released with the entries that the packet adds afterwards, by
/// `add_entry` or `add_entry_pair`. If it adds none, the port rests for a second at least, so that
/// the next packet takes another one.
extern PortPool {
    /// A pool of `addresses` outside addresses, for subscribers with the numbers 0 to
    /// `subscribers` - 1. Each address has each port once in each of `spaces` (1 to 16), such as
    /// one for TCP, one for UDP and one for ICMP. A released port rests for `rest_seconds` before it
    /// is given out again (RFC 6888, REQ-8).
    PortPool(bit<32> addresses, bit<32> subscribers, bit<32> spaces, bit<32> rest_seconds);

    /// Takes a port for `subscriber` at one of the addresses from `first_address` to
    /// `first_address` + `address_count` - 1: the first free port of `space` in one of its blocks
    /// at these addresses, in the order in which it got them; in each from port `hash` mod 64 on,
    /// cyclically. If all are in use and the subscriber has less than `max_blocks` blocks, it gets
    /// one more: of the address of its blocks, else of the first address that has a free block,
    /// from number `hash` / 64 mod `address_count` of the range on; there the first free one from
    /// number `hash` / 64 / `address_count` mod 1008 on.
    PortLease_t take(in bit<32> first_address, in bit<32> address_count, in bit<32> subscriber,
                     in bit<32> max_blocks, in bit<8> space, in bit<32> hash);
}

/// Limits on entries that packets add: how many each owner, such as a tenant or a machine, may have.
///
/// What a packet took belongs to the entries that it adds afterwards, by `add_entry` or
/// `add_entry_pair`, and is given back with them, whatever ends them; a pair counts as one. If the
/// packet adds none, it is given back at once.
extern EntryQuota {
    /// A quota for owners with the numbers 0 to `owners` - 1.
    EntryQuota(bit<32> owners);

    /// Takes one of the `max_entries` that `owner` may have. Returns false, and takes nothing, if the
    /// owner has them all, or if there is no such owner.
    bool take(in bit<32> owner, in bit<32> max_entries);
}

#endif
