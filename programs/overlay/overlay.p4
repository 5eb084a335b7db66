// SPDX-License-Identifier: Apache-2.0
//
// Where is the destination VM? The program decapsulates VXLAN, looks up the longest prefix in the
// tenant's routing table and the VM's server, and encapsulates again: the core of a cloud gateway.
// It behaves like a VPP router with a VRF for each VNI, so that engines can be compared with VPP.
// Users install `gateway/`. README.md lists the functions and the deliberate omissions.

#include <core.p4>
#include <pna.p4>

#include "headers.p4"
#include "parser.p4"

control overlay(inout headers_t hdr,
                inout metadata_t meta,
                in pna_main_input_metadata_t istd,
                inout pna_main_output_metadata_t ostd) {
    InternetChecksum() outer_checksum;
    vni_t   to_vni;
    bit<32> flow;

    action drop(drop_reason_t reason) {
        meta.drop_reason = reason;
        drop_packet();
        exit;
    }

    /// A VM of the same tenant: the VNI is unchanged.
    action local() {
        to_vni = hdr.vxlan.vni;
    }

    /// A VM of another tenant: the packet gets the VNI of this tenant.
    action peer(vni_t vni) {
        to_vni = vni;
    }

    action no_route() {
        drop(drop_reason_t.no_route);
    }

    table route {
        key = {
            hdr.vxlan.vni:              exact @name("vni");
            hdr.inner_ipv4.destination: lpm   @name("destination");
        }
        actions = { local; peer; @defaultonly no_route; }
        const default_action = no_route();
        size = 1048576;
    }

    /// Sets the server that hosts the VM, and the VM's MAC.
    action on_server(ipv4_t server, mac_t vm_mac) {
        hdr.outer_ipv4.destination = server;
        hdr.inner_ethernet.destination = vm_mac;
    }

    action unknown_vm() {
        drop(drop_reason_t.unknown_vm);
    }

    table vm {
        key = {
            to_vni:                     exact @name("vni");
            hdr.inner_ipv4.destination: exact @name("vm");
        }
        actions = { on_server; @defaultonly unknown_vm; }
        const default_action = unknown_vm();
        size = 16777216;
    }

    /// Sets the gateway's addresses, and the port and router for all servers.
    action set_uplink(PortId_t port, ipv4_t address, mac_t mac, mac_t router_mac) {
        hdr.outer_ethernet.source = mac;
        hdr.outer_ethernet.destination = router_mac;
        hdr.outer_ipv4.source = address;
        hdr.inner_ethernet.source = mac;
        send_to_port(port);
    }

    action not_configured() {
        drop(drop_reason_t.not_configured);
    }

    /// No key: the control plane sets the default action.
    table uplink {
        actions = { set_uplink; not_configured; }
        default_action = not_configured();
    }

    /// Decrements the TTL and updates the checksum (RFC 1624, equation 3). The word of TTL and
    /// protocol decreases by 0x0100, so the checksum increases by 0x0100 with end-around carry.
    /// 0xffff is written as 0, like the result of a complete computation.
    action one_hop_fewer() {
        bit<17> sum = (bit<17>) hdr.inner_ipv4.checksum + 0x0100;
        sum = sum + (sum >= 0xffff ? 17w1 : 17w0);
        hdr.inner_ipv4.checksum = sum[15:0];
        hdr.inner_ipv4.ttl = hdr.inner_ipv4.ttl - 1;
    }

    /// Computes the flow hash for the outer source port from the addresses and, if present, the
    /// ports. Both directions of a flow can have the same hash.
    action hash_flow() {
        flow = hdr.inner_ipv4.source ^ hdr.inner_ipv4.destination ^ meta.ports
             ^ (bit<32>) hdr.inner_ipv4.protocol;
        flow = flow ^ (flow >> 16);
    }

    /// Sets the outer headers. Earlier steps set the addresses. The lengths are kept, because
    /// neither VXLAN nor the tenant's packet has changed in size.
    action encapsulate() {
        hdr.outer_ipv4.dscp_ecn = 0;
        hdr.outer_ipv4.identification = 0;
        hdr.outer_ipv4.flags_offset = 0;
        hdr.outer_ipv4.ttl = 254;
        outer_checksum.add({ hdr.outer_ipv4.version, hdr.outer_ipv4.ihl, hdr.outer_ipv4.dscp_ecn,
                             hdr.outer_ipv4.total_length, hdr.outer_ipv4.identification,
                             hdr.outer_ipv4.flags_offset, hdr.outer_ipv4.ttl,
                             hdr.outer_ipv4.protocol, hdr.outer_ipv4.source,
                             hdr.outer_ipv4.destination });
        hdr.outer_ipv4.checksum = outer_checksum.get();
        hdr.outer_udp.source = 2w3 ++ flow[13:0];   // 49152..65535
        hdr.outer_udp.checksum = 0;
        hdr.vxlan.flags = VXLAN_FLAG_I;
        hdr.vxlan.reserved = 0;
        hdr.vxlan.vni = to_vni;
        hdr.vxlan.reserved_2 = 0;
    }

    apply {
        // Is the packet valid? The parser has checked each header alone.
        if (istd.parser_error != error.NoError) {
            drop(drop_reason_t.malformed);
        }
        if (!hdr.inner_ipv4.isValid()) {
            drop(drop_reason_t.not_vxlan_with_ipv4);
        }
        if (hdr.outer_udp.length != hdr.outer_ipv4.total_length - 20
            || (hdr.vxlan.flags & VXLAN_FLAG_I) == 0
            || 30 + (bit<17>) hdr.inner_ipv4.total_length > (bit<17>) hdr.outer_udp.length) {
            drop(drop_reason_t.malformed);
        }
        if (hdr.inner_ipv4.ttl <= 1) {
            drop(drop_reason_t.inner_ttl_expired);
        }

        // Where does it go?
        route.apply();
        vm.apply();
        uplink.apply();

        // Rewrites the packet.
        one_hop_fewer();
        hash_flow();
        encapsulate();
    }
}

control overlay_pre(in headers_t hdr,
                    inout metadata_t meta,
                    in pna_pre_input_metadata_t istd,
                    inout pna_pre_output_metadata_t ostd) {
    apply { }
}

control overlay_deparser(packet_out packet,
                         in headers_t hdr,
                         in metadata_t meta,
                         in pna_main_output_metadata_t ostd) {
    apply {
        packet.emit(hdr.outer_ethernet);
        packet.emit(hdr.outer_ipv4);
        packet.emit(hdr.outer_udp);
        packet.emit(hdr.vxlan);
        packet.emit(hdr.inner_ethernet);
        packet.emit(hdr.inner_ipv4);
    }
}

PNA_NIC(overlay_parser(), overlay_pre(), overlay(), overlay_deparser()) main;
