// SPDX-License-Identifier: Apache-2.0
//
// Does a port of a public address stand for a port of a VM, or for a service? A port forward is a pair of entries
// without state, one for each direction. It is looked up before `sessions`, and only for packets to
// addresses with forwards and of VMs with forwards. An ICMP error belongs to the forward of the
// packet that it quotes.

#ifndef GATEWAY_NAT_FORWARD_P4
#define GATEWAY_NAT_FORWARD_P4

#include "metadata.p4"
#include "nat_flow.p4"
#include "verdicts.p4"

control nat_forward_step(inout metadata_t meta, inout nat_flow_t nat) {
    /// A VM's packet from the port leaves with this address and port.
    action forward_to_internet(ipv4_t address, bit<16> port) {
        nat.new_address = address;
        nat.new_port = port;
    }

    /// A packet to the port is for this VM. `mss` is the limit of TCP segments, in bytes.
    action forward_to_vm(vpc_t vpc, vni_t vni, ipv4_t address, bit<16> port, bit<16> mss) {
        meta.vpc = vpc;
        meta.in_list = vpc;
        meta.to_vni = vni;
        meta.limits_mss = mss != NO_MSS_LIMIT;
        meta.mss_v4 = mss;
        nat.new_address = address;
        nat.new_port = port;
    }

    /// A packet to the port is for the service with this address in the VPC, or this public address if
    /// it has none there. The other parameters are those of `forward_to_vm` and of `services`.
    action forward_to_service(vpc_t vpc, vni_t vni, ipv4_t address, bit<16> mss, bit<32> slots,
                              bit<1> by_client, bit<32> max_connections) {
        meta.vpc = vpc;
        meta.in_list = vpc;
        meta.to_vni = vni;
        meta.limits_mss = mss != NO_MSS_LIMIT;
        meta.mss_v4 = mss;
        nat.service_vpc = vpc;
        nat.service = address;
        nat.service_port = nat.local_port;
        nat.slots = slots;
        nat.max_connections = max_connections;
        nat.by_client = by_client == 1;
        nat.kind = nat_kind_t.service;
    }

    /// Another port: the packet is of a session. Without a NAT, it goes to the CPU as those of the VPC's
    /// other VMs.
    action not_forwarded() {
        if (nat.kind == nat_kind_t.only_forward) {
            to_cpu(meta, punt_reason_t.internet);
        }
        nat.kind = nat_kind_t.session;
    }

    table forwards {
        key = {
            nat.vpc:         exact @name("vpc");
            nat.is_outbound: exact @name("is_outbound");
            nat.protocol:    exact @name("protocol");
            nat.local:       exact @name("address");
            nat.local_port:  exact @name("port");
        }
        actions = {
            @tableonly forward_to_internet; @tableonly forward_to_vm; @tableonly forward_to_service;
            @defaultonly not_forwarded;
        }
        const default_action = not_forwarded();
        size = 65536;
    }

    apply {
        forwards.apply();
    }
}

#endif
