// SPDX-License-Identifier: Apache-2.0
//
// Where is the VM that this packet wants to go to? VXLAN in, the longest prefix in the tenant's
// routing table, the VM's server, VXLAN out: the core of every cloud gateway and nothing besides.
// It does what a router of VPP does with a VRF a VNI, so that engines can be compared with it;
// what users install is `gateway/`. README.md says what is there and what is deliberately absent.

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

    /// A VM of the same tenant: the VNI stays.
    action local() {
        to_vni = hdr.vxlan.vni;
    }

    /// A VM of another tenant, whose VNI the packet carries from here on.
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

    /// The server that hosts the VM, and the VM's MAC.
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

    /// Who we are, and through which port and to which router all servers are reached.
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

    /// The tenant's packet: one hop fewer, and its checksum brought up to date (RFC 1624, equation
    /// 3): the word of TTL and protocol becomes 0x0100 less, so the checksum becomes 0x0100 more. A
    /// carry goes to the end; 0xffff is written as 0, as a checksum made anew would be.
    action one_hop_fewer() {
        bit<17> sum = (bit<17>) hdr.inner_ipv4.checksum + 0x0100;
        sum = sum + (sum >= 0xffff ? 17w1 : 17w0);
        hdr.inner_ipv4.checksum = sum[15:0];
        hdr.inner_ipv4.ttl = hdr.inner_ipv4.ttl - 1;
    }

    /// The flow for the outer source port: of the addresses and, if the packet has them, the ports.
    /// Both directions of a flow may get the same one.
    action hash_flow() {
        flow = hdr.inner_ipv4.source ^ hdr.inner_ipv4.destination ^ meta.ports
             ^ (bit<32>) hdr.inner_ipv4.protocol;
        flow = flow ^ (flow >> 16);
    }

    /// Outer headers as if made anew. Addresses are there by now; the lengths stay, as neither VXLAN nor
    /// the tenant's packet has changed in size.
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
        // A sound packet? The parser has looked at each header alone.
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

        // Where to?
        route.apply();
        vm.apply();
        uplink.apply();

        // What does it look like then?
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
