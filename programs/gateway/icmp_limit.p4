// SPDX-License-Identifier: Apache-2.0
//
// Has the sender caused too many ICMP messages? Each VM and each VPC has a token bucket (RFC 4443,
// section 2.4 (f)), one each for "too big", other errors, echo replies, and answers with the
// gateway's MAC address, so that a flood of packets without hops does not end path MTU discovery. A
// message is sent if both buckets have a token, and only then takes one of each.
//
// A bucket is one number: the time at which it is full again (the generic cell rate algorithm,
// ITU-T I.371). It starts at 0, which is full. PNA's meters would have to be configured one by one
// before they limit anything. VMs share 65,536 buckets by a hash, VPCs by the lower 16 bits of
// their number.

#ifndef GATEWAY_ICMP_LIMIT_P4
#define GATEWAY_ICMP_LIMIT_P4

#include "metadata.p4"
#include "verdicts.p4"

/// Buckets of their own. The numbers are the keys of `icmp_limits`.
enum bit<2> icmp_kind_t {
    too_big   = 0,
    other     = 1,
    reply     = 2,
    neighbour = 3
}

control icmp_limit_step(in headers_t hdr, inout metadata_t meta, in pna_main_input_metadata_t istd) {
    /// Time in ns at which a VM's bucket is full again; the index is the kind and a hash of VNI and
    /// inner source.
    Register<bit<64>, bit<18>>(262144) icmp_vm_full;

    /// The same of VPCs; the index is the kind and the lower 16 bits of the VPC.
    Register<bit<64>, bit<18>>(262144) icmp_vpc_full;

    Hash<bit<16>>(PNA_HashAlgorithm_t.CRC16) vm_hash;
    icmp_kind_t kind;
    ipv6_t  sender;
    bit<64> now;
    // Time in ns that a bucket needs to be full: 0 if it is full.
    bit<64> vm_backlog;
    bit<64> vpc_backlog;
    bit<18> vm;
    bit<18> vpc;
    bit<64> vm_token;
    bit<64> vm_size;
    bit<64> vpc_token;
    bit<64> vpc_size;

    /// Sets the limits of a kind. A token takes `*_token` ns to come; a bucket holds what comes in
    /// `*_size` ns.
    action set_limits(bit<32> vm_token_ns, bit<48> vm_size_ns, bit<32> vpc_token_ns, bit<48> vpc_size_ns) {
        vm_token = (bit<64>) vm_token_ns;
        vm_size = (bit<64>) vm_size_ns;
        vpc_token = (bit<64>) vpc_token_ns;
        vpc_size = (bit<64>) vpc_size_ns;
    }

    /// Limits other than the defaults.
    table icmp_limits {
        key = { kind: exact @name("kind"); }
        actions = { set_limits; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 4;
    }

    apply {
        if (hdr.icmp_task.cause == icmp_cause_t.too_big) {
            // 50 a second and 100 at once for each VM, 1,000 and 2,000 for each VPC.
            kind = icmp_kind_t.too_big;
            vm_token = 20000000;
            vm_size = 2000000000;
            vpc_token = 1000000;
            vpc_size = 2000000000;
        } else if (hdr.icmp_task.cause == icmp_cause_t.echo) {
            // 20 a second and 40 at once, 2,000 and 4,000.
            kind = icmp_kind_t.reply;
            vm_token = 50000000;
            vm_size = 2000000000;
            vpc_token = 500000;
            vpc_size = 2000000000;
        } else if (hdr.icmp_task.cause == icmp_cause_t.neighbour) {
            // As echo replies.
            kind = icmp_kind_t.neighbour;
            vm_token = 50000000;
            vm_size = 2000000000;
            vpc_token = 500000;
            vpc_size = 2000000000;
        } else {
            // 10 a second and 30 at once (traceroute sends 3 for each hop), 500 and 1,000.
            kind = icmp_kind_t.other;
            vm_token = 100000000;
            vm_size = 3000000000;
            vpc_token = 2000000;
            vpc_size = 2000000000;
        }
        icmp_limits.apply();

        if (hdr.icmp_task.cause == icmp_cause_t.neighbour) {
            sender = (ipv6_t) hdr.inner_ethernet.source;   // the request can be from no address
        } else if (hdr.quoted_ipv4.isValid()) {
            sender = (ipv6_t) hdr.quoted_ipv4.source;
        } else if (hdr.quoted_ipv6.isValid()) {
            sender = hdr.quoted_ipv6.source;
        } else if (hdr.inner_ipv4.isValid()) {
            sender = (ipv6_t) hdr.inner_ipv4.source;
        } else {
            sender = hdr.inner_ipv6.source;
        }
        vm = (bit<2>) kind ++ vm_hash.get_hash({ hdr.icmp_task.vni, sender });
        vpc = (bit<2>) kind ++ hdr.icmp_task.vpc[15:0];
        now = (bit<64>) (TimestampUint_t) istd.timestamp;
        vm_backlog = icmp_vm_full.read(vm) - now;
        vpc_backlog = icmp_vpc_full.read(vpc) - now;
        // A time in the past, which wraps around: the bucket is full. So is one whose time is later
        // than an empty bucket needs, because it was written on another clock. Selected without a
        // branch, and no decision compares `now` with itself: then all messages of a flow take one
        // path, and a flow cache does not match on times.
        vm_backlog = vm_backlog > vm_size ? 0 : vm_backlog;
        vpc_backlog = vpc_backlog > vpc_size ? 0 : vpc_backlog;
        vm_backlog = vm_backlog + vm_token;
        vpc_backlog = vpc_backlog + vpc_token;
        if (vm_backlog > vm_size || vpc_backlog > vpc_size) {
            drop(meta, drop_reason_t.icmp_limited);
        }
        icmp_vm_full.write(vm, now + vm_backlog);
        icmp_vpc_full.write(vpc, now + vpc_backlog);
    }
}

#endif
