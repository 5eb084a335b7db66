// SPDX-License-Identifier: Apache-2.0
//
// Which server (NC) hosts the VM, and what is the VM's MAC? From here on, the outer header is that
// of the packet to be sent, with the address family and the address of the server.

#ifndef GATEWAY_VM_NC_P4
#define GATEWAY_VM_NC_P4

#include "metadata.p4"

control vm_nc_step(inout headers_t hdr, inout metadata_t meta) {
    action on_server_v4(ipv4_t server, mac_t vm_mac) {
        hdr.outer_ipv6.setInvalid();
        hdr.outer_ipv4.setValid();
        hdr.outer_ipv4.destination = server;
        meta.far_mac = vm_mac;
    }

    action on_server_v6(ipv6_t server, mac_t vm_mac) {
        meta.tunnel_v4 = hdr.outer_ipv4.source;
        hdr.outer_ipv4.setInvalid();
        hdr.outer_ipv6.setValid();
        hdr.outer_ipv6.destination = server;
        meta.far_mac = vm_mac;
    }

    /// The gateway's own address in a subnet of a VPC in which it answers.
    action gateway_address() {
        if (meta.one_pass_only) {
            to_cpu(meta, punt_reason_t.gateway_address);
        }
        if (!meta.one_pass_only && meta.from_internet) {
            drop(meta, drop_reason_t.gateway_closed);
        }
        order_icmp(hdr, meta, icmp_cause_t.echo, 0);
    }

    /// The same over IPv6 in a VPC in which it only tells its MAC address: it answers a solicitation to
    /// the address itself, by which a VM asks whether its neighbour entry still holds (RFC 4861,
    /// section 7.3). Both tables have the action, because a chip can have both in one memory.
    action neighbour_address() {
        if (meta.one_pass_only) {
            to_cpu(meta, punt_reason_t.neighbour);
        }
        if (!meta.one_pass_only && meta.from_internet) {
            drop(meta, drop_reason_t.gateway_closed);
        }
        order_icmp(hdr, meta, icmp_cause_t.neighbour, 0);
    }

    action unknown_vm() {
        drop_and_tell(hdr, meta, drop_reason_t.unknown_vm, icmp_cause_t.unknown_vm, 0);
    }

    table vm_nc_v4 {
        key = {
            meta.to_vni:                exact @name("vni");
            hdr.inner_ipv4.destination: exact @name("vm") @format(IPV4_ADDRESS);
        }
        actions = {
            on_server_v4; on_server_v6; gateway_address; neighbour_address; @defaultonly unknown_vm;
        }
        const default_action = unknown_vm();
        size = 2097152;
    }

    table vm_nc_v6 {
        key = {
            meta.to_vni:                exact @name("vni");
            hdr.inner_ipv6.destination: exact @name("vm") @format(IPV6_ADDRESS);
        }
        actions = {
            on_server_v4; on_server_v6; gateway_address; neighbour_address; @defaultonly unknown_vm;
        }
        const default_action = unknown_vm();
        size = 2097152;
    }

    apply {
        if (hdr.inner_ipv4.isValid()) {
            vm_nc_v4.apply();
        } else {
            vm_nc_v6.apply();
        }
    }
}

#endif
