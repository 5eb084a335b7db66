// SPDX-License-Identifier: Apache-2.0
//
// May the VM use the Internet, and which public addresses stand for it? A VPC without a NAT keeps its route
// to the Internet: the packet goes to the CPU.
//
// A packet of a backend of a public service is an answer, which needs no NAT and has the service's
// address, whatever addresses the VM has otherwise.
//
// A destination in the operator's own network (servers, routers, the gateway) is not the Internet.
// Without this test a VM could reach the underlay, because the underlay's routes lead there.

#ifndef GATEWAY_NAT_SOURCE_P4
#define GATEWAY_NAT_SOURCE_P4

#include "metadata.p4"
#include "nat64_source.p4"
#include "nat_flow.p4"
#include "verdicts.p4"

control nat_source_step(in headers_t hdr, inout metadata_t meta, inout nat_flow_t nat) {
    nat64_source_step() nat64_source;
    ipv4_t destination;

    /// VMs of a subnet. Their addresses from `first_vm` on have the numbers from `first_subscriber`
    /// on in the pool of ports. They share `count` public addresses from `first_public` on, which are
    /// those from number `first_number` on in the pool. Each VM gets at most `blocks` blocks of 64
    /// ports.
    action translate_subnet(ipv4_t first_vm, bit<32> first_subscriber, ipv4_t first_public,
                            bit<32> first_number, bit<32> count, bit<32> blocks) {
        nat.subscriber = first_subscriber + (hdr.inner_ipv4.source - first_vm);
        nat.first_public = first_public;
        nat.first_number = first_number;
        nat.public_count = count;
        nat.max_blocks = blocks;
        nat.kind = nat_kind_t.session;
    }

    /// As `translate_subnet`, of one VM with port forwards.
    action translate_with_forwards(ipv4_t first_vm, bit<32> first_subscriber, ipv4_t first_public,
                                   bit<32> first_number, bit<32> count, bit<32> blocks) {
        translate_subnet(first_vm, first_subscriber, first_public, first_number, count, blocks);
        nat.kind = nat_kind_t.forward;
    }

    /// One VM with port forwards, of a VPC without a NAT.
    action translate_forwards() {
        nat.kind = nat_kind_t.only_forward;
    }

    /// One VM with an elastic address.
    action translate_vm(ipv4_t address) {
        nat.kind = nat_kind_t.elastic;
        nat.new_address = address;
    }

    /// The VPC has a NAT, and the source is in none of its subnets.
    action no_nat() {
        drop(meta, drop_reason_t.no_nat);
    }

    /// The VPC has no NAT.
    action without_nat() {
        to_cpu(meta, punt_reason_t.internet);
    }

    /// One entry for each subnet of a VPC with a NAT, and one with `no_nat` for all its other sources.
    /// One for each VM with an elastic address or with port forwards: it is the longest prefix.
    table nat_source {
        key = {
            meta.vpc:              exact @name("vpc");
            hdr.inner_ipv4.source: lpm   @name("source");
        }
        actions = {
            translate_subnet; translate_with_forwards; translate_forwards; translate_vm; no_nat;
            @defaultonly without_nat;
        }
        const default_action = without_nat();
        size = 65536;
    }

    action not_internet() {
        drop(meta, drop_reason_t.nat_destination);
    }

    /// Prefixes that a NAT does not reach.
    table nat_refused {
        key = { destination: lpm @name("destination") @format(IPV4_ADDRESS); }
        actions = { not_internet; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 262144;
    }

    apply {
        destination = hdr.inner_ipv4.destination;
        if (hdr.inner_ipv4.isValid()) {
            if (nat.is_answer) {
                nat.kind = nat_kind_t.answer;
            } else {
                nat_source.apply();
            }
        } else if (meta.nat == nat_t.to_v4) {
            nat64_source.apply(hdr, meta, nat);
            destination = hdr.inner_ipv6.destination[31:0];
        } else {
            nat.kind = nat_kind_t.routed;   // internet_v6.p4
        }
        meta.nat = nat_t.outbound;
        if (nat.kind != nat_kind_t.routed) {
            nat_refused.apply();
        }
    }
}

#endif
