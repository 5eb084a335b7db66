// SPDX-License-Identifier: Apache-2.0
//
// May a packet pass between a VPC and the Internet over IPv6, and does it keep its address? There is no
// session: a VM has its own address on the Internet, or one that NPTv6 computes from it (npt.p4). By
// choice of the VPC, only answers come in; then the security groups' step tracks the flows of VMs that
// are in no group (groups.p4).
//
// One table has the VPC's own prefixes, for both directions: a VM sends with no other source, and
// nothing from the Internet has one of them as its source (RFC 6092, REC-5 and REC-6). Otherwise a host
// in the Internet could take part in flows between VMs.
//
// A destination in the operator's own network is not the Internet (nat_source.p4).

#ifndef GATEWAY_INTERNET_V6_P4
#define GATEWAY_INTERNET_V6_P4

#include "metadata.p4"
#include "verdicts.p4"

/// Parameters of packets to and from the Internet, from the entry of a prefix.
struct internet_v6_t {
    bool    answers_only;   // packets from the Internet that answer none do not come in
    bool    keeps;          // as in group_member_t, of VMs in no group
    bool    picks_up;
    bit<32> max_flows;
    bool    translates;     // NPTv6:
    bit<64> prefix;         //   the new prefix
    bit<64> mask;           //   a 1 for each bit of it
    bit<16> adjustment;     //   of one word, so that the sum of all words stays the same
    bool    in_subnet;      //   the word is behind the prefix, not in the interface identifier
}

/// Packets and bytes between VPCs and the Internet over IPv6; 0: from VMs, 1: to VMs.
Counter<bit<64>, bit<1>>(2, PNA_CounterType_t.PACKETS_AND_BYTES) internet_v6_passed;

control internet_v6_step(in headers_t hdr, inout metadata_t meta, inout internet_v6_t internet) {
    bool is_own;         // the source is in a prefix of the VPC
    bool has_internet;   // the VPC has a way to the Internet over IPv6

    /// A prefix of the VPC. `answers_only`: VMs in no group get only answers; `keeps` and `picks_up` are
    /// those of `in_groups`, and the VPC may have `max_flows` (groups_member.p4).
    action routed_source(bit<1> answers_only, bit<1> keeps, bit<1> picks_up, bit<32> max_flows) {
        is_own = true;
        has_internet = true;
        internet.answers_only = (bool) answers_only;
        internet.keeps = (bool) keeps;
        internet.picks_up = (bool) picks_up;
        internet.max_flows = max_flows;
        internet.translates = false;
    }

    /// As `routed_source`, of a prefix in whose place `prefix` comes (npt.p4).
    action translated_source(bit<1> answers_only, bit<1> keeps, bit<1> picks_up, bit<32> max_flows,
                             bit<64> prefix, bit<64> mask, bit<16> adjustment, bit<1> in_subnet) {
        routed_source(answers_only, keeps, picks_up, max_flows);
        internet.translates = true;
        internet.prefix = prefix;
        internet.mask = mask;
        internet.adjustment = adjustment;
        internet.in_subnet = (bool) in_subnet;
    }

    /// A subnet of the VPC that does not use the Internet.
    action closed_source() {
        drop(meta, drop_reason_t.internet_source);
    }

    /// All other sources of such a VPC.
    action other_source() {
        has_internet = true;
    }

    table sources {
        key = {
            meta.vpc:              exact @name("vpc");
            hdr.inner_ipv6.source: lpm   @name("source");
        }
        actions = {
            routed_source; translated_source; closed_source; other_source; @defaultonly NoAction;
        }
        const default_action = NoAction();
        size = 65536;
    }

    action not_internet() {
        drop(meta, drop_reason_t.nat_destination);
    }

    /// Prefixes that VMs do not reach through the Internet.
    table refused {
        key = { hdr.inner_ipv6.destination: lpm @name("destination"); }
        actions = { not_internet; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 262144;
    }

    apply {
        is_own = false;
        has_internet = false;
        sources.apply();
        if (meta.from_internet) {
            if (is_own) {
                drop(meta, drop_reason_t.internet_source);
            }
            internet_v6_passed.count(1);
        } else {
            if (!has_internet) {
                to_cpu(meta, punt_reason_t.internet);
            }
            if (!is_own) {
                drop(meta, drop_reason_t.internet_source);
            }
            refused.apply();
            // `groups` tracks the flow.
            meta.has_groups = meta.has_groups || internet.answers_only;
            internet_v6_passed.count(0);
        }
    }
}

#endif
