// SPDX-License-Identifier: Apache-2.0
//
// Is the packet from a tenant, in VXLAN to a tunnel address of the gateway from a known end point,
// from the Internet to a public address, or for the gateway itself (control and protocol
// traffic, which goes to the CPU)? Other packets are dropped.
//
// A frame must be addressed to the MAC of its input port, whatever its IP destination (RFC 1812,
// section 5.3.4). Otherwise a switch that floods would make the gateway send tenants' packets
// twice. Exempt are frames to a group MAC: protocols of the link (ARP, LLDP, ...), link-local IP
// groups (neighbour discovery, OSPF, ...), and DHCP.
//
// VXLAN does not authenticate its sender. The source address must be that of a server or a remote,
// because this is the only protection of a tenant's network against other hosts.

#ifndef GATEWAY_CLASSIFY_P4
#define GATEWAY_CLASSIFY_P4

#include "metadata.p4"
#include "internet_v6.p4"
#include "nat_flow.p4"
#include "punt.p4"

control classify_step(inout headers_t hdr, inout metadata_t meta, in pna_main_input_metadata_t istd,
                      inout nat_flow_t nat, inout internet_v6_t internet) {
    action own_port() { }

    action other_mac() {
        drop(meta, drop_reason_t.underlay_other_mac);
    }

    /// Matches if the frame is addressed to the MAC of its input port. Port numbers above 65535 are
    /// reserved for the engine.
    table own_mac {
        key = {
            (bit<16>) (PortIdUint_t) istd.input_port: exact @name("port");
            hdr.outer_ethernet.destination:           exact @name("mac");
        }
        actions = { own_port; @defaultonly other_mac; }
        const default_action = other_mac();
        size = 1024;
    }

    action other_vlan() {
        drop(meta, drop_reason_t.underlay_other_vlan);
    }

    /// `own_mac` of frames with a VLAN tag.
    table own_vlan {
        key = {
            (bit<16>) (PortIdUint_t) istd.input_port: exact @name("port");
            hdr.outer_vlan.vid:                       exact @name("vid");
            hdr.outer_ethernet.destination:           exact @name("mac");
        }
        actions = { own_port; @defaultonly other_vlan; }
        const default_action = other_vlan();
        size = 1024;
    }

    /// VLANs whose frames to a group are for the gateway.
    table group_vlan {
        key = {
            (bit<16>) (PortIdUint_t) istd.input_port: exact @name("port");
            hdr.outer_vlan.vid:                       exact @name("vid");
        }
        actions = { own_port; @defaultonly other_vlan; }
        const default_action = other_vlan();
        size = 1024;
    }

    // ---- tunnels ------------------------------------------------------------------------------

    /// Tunnel of a server: the packet was sent by a VM.
    action from_server() {
        meta.sender = sender_t.server;
    }

    /// Tunnel of a remote: the packet comes from outside of the region's VPCs.
    action from_remote() {
        meta.sender = sender_t.remote;
    }

    /// One entry for each server and remote, with the gateway address that it sends to. Most
    /// packets therefore need no lookup of own addresses.
    table tunnel_v4 {
        key = {
            hdr.outer_ipv4.source:      exact @name("source");
            hdr.outer_ipv4.destination: exact @name("destination");
        }
        actions = { from_server; from_remote; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 262144;
    }

    table tunnel_v6 {
        key = {
            hdr.outer_ipv6.source:      exact @name("source");
            hdr.outer_ipv6.destination: exact @name("destination");
        }
        actions = { from_server; from_remote; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 262144;
    }

    action unknown_source() {
        drop(meta, drop_reason_t.unknown_source);
    }

    /// Further sources, for packets without an entry in `tunnel_v4`.
    table source_v4 {
        key = { hdr.outer_ipv4.source: lpm @name("source"); }
        actions = { from_server; from_remote; @defaultonly unknown_source; }
        const default_action = unknown_source();
        size = 1024;
    }

    table source_v6 {
        key = { hdr.outer_ipv6.source: lpm @name("source"); }
        actions = { from_server; from_remote; @defaultonly unknown_source; }
        const default_action = unknown_source();
        size = 1024;
    }

    // ---- own addresses ------------------------------------------------------------------------

    /// Address at which tunnels end. Packets other than VXLAN go to the CPU.
    action tunnel_address() { }

    /// Address of the gateway without tunnels. Packets other than VXLAN go to the CPU; VXLAN is
    /// dropped, if its source is known by a later step, because on a chip a condition here would
    /// delay all packets by a stage.
    action router_address() {
        meta.to_router_address = true;
    }

    // To a public address. VXLAN is dropped as for `router_address`; other packets are for VMs. A switch
    // sends them to the CPU.
    action set_public(in nat_kind_t kind) {
        meta.to_router_address = true;
        meta.from_internet = !hdr.vxlan.isValid();
        if (meta.one_pass_only) {
            meta.punt_kind = punt_reason_t.internet;
        } else {
            nat.kind = kind;
        }
    }

    /// Public address of a NAT: packets belong to sessions.
    action public_address() {
        set_public(nat_kind_t.session);
    }

    /// Public address with port forwards. It can be of a NAT, too.
    action forwarding_address() {
        set_public(nat_kind_t.forward);
    }

    /// Elastic address: all packets are for this VM. `mss` is the limit of TCP segments, in bytes.
    action elastic_address(vpc_t vpc, vni_t vni, ipv4_t vm, bit<16> mss) {
        set_public(nat_kind_t.elastic);
        if (!meta.one_pass_only) {
            meta.vpc = vpc;
            meta.in_list = vpc;
            meta.to_vni = vni;
            meta.limits_mss = mss != NO_MSS_LIMIT;
            meta.mss_v4 = mss;
            nat.new_address = vm;
        }
    }

    action not_for_gateway() {
        drop(meta, drop_reason_t.not_for_gateway);
    }

    /// Over IPv6, it can be an address of a VM. A switch sends none of these to the CPU, because it does
    /// not know the prefixes of VPCs.
    action other_address() {
        if (meta.one_pass_only) {
            drop(meta, drop_reason_t.not_for_gateway);
        }
    }

    table own_address_v4 {
        key = { hdr.outer_ipv4.destination: exact @name("destination"); }
        actions = {
            tunnel_address; router_address; public_address; forwarding_address; elastic_address;
            @defaultonly not_for_gateway;
        }
        const default_action = not_for_gateway();
        size = 4096;
    }

    table own_address_v6 {
        key = { hdr.outer_ipv6.destination: exact @name("destination"); }
        actions = { tunnel_address; router_address; @defaultonly other_address; }
        const default_action = other_address();
        size = 1024;
    }

    /// A prefix of a VPC on the Internet. `refused` and `mss` are those of the VPC; the others are as in
    /// `routed_source` (internet_v6.p4).
    action routed_prefix(vpc_t vpc, vni_t vni, extensions_t refused, bit<16> mss, bit<1> answers_only,
                         bit<1> keeps, bit<1> picks_up) {
        set_public(nat_kind_t.routed);
        if (!meta.one_pass_only) {
            meta.vpc = vpc;
            meta.in_list = vpc;
            meta.to_vni = vni;
            meta.refused = refused;
            meta.limits_mss = mss != NO_MSS_LIMIT;
            meta.mss_v6 = mss;
            internet.answers_only = (bool) answers_only;
            internet.keeps = (bool) keeps;
            internet.picks_up = (bool) picks_up;
            internet.max_flows = 0;
            internet.translates = false;
        }
    }

    /// As `routed_prefix`, of a prefix that stands for another one of the VPC (npt.p4).
    action translated_prefix(vpc_t vpc, vni_t vni, extensions_t refused, bit<16> mss, bit<1> answers_only,
                             bit<1> keeps, bit<1> picks_up, bit<64> prefix, bit<64> mask,
                             bit<16> adjustment, bit<1> in_subnet) {
        routed_prefix(vpc, vni, refused, mss, answers_only, keeps, picks_up);
        internet.translates = true;
        internet.prefix = prefix;
        internet.mask = mask;
        internet.adjustment = adjustment;
        internet.in_subnet = (bool) in_subnet;
    }

    /// Prefixes of VPCs on the Internet. Only packets to none of the gateway's own addresses look here.
    table vpc_prefix {
        key = { hdr.outer_ipv6.destination: lpm @name("destination"); }
        actions = { routed_prefix; translated_prefix; @defaultonly not_for_gateway; }
        const default_action = not_for_gateway();
        size = 65536;
    }

    // ---- steps ----------------------------------------------------------------------------------

    punt_step() punt;
    bool is_own;

    apply {
        if (meta.one_pass_only && meta.punt_kind == punt_reason_t.vlan) {
            to_cpu(meta, punt_reason_t.vlan);
        }

        // The lowest bit of the first byte marks a group MAC (IEEE 802, section 8.2).
        // Tested first by a comparison that usually holds, because native code takes that path.
        if (hdr.vxlan.isValid() || hdr.outer_ethernet.destination[40:40] != 1) {
            if (!meta.one_pass_only && hdr.outer_vlan.isValid()) {
                own_vlan.apply();
            } else {
                own_mac.apply();
            }
        }
        if (hdr.vxlan.isValid()) {
            if (hdr.outer_ipv4.isValid()) {
                tunnel_v4.apply();
            } else {
                tunnel_v6.apply();
            }
        }

        if (meta.sender == sender_t.unknown) {
            // 224.0.0.0/24, ff02::/16 and fe80::/10.
            if (!hdr.vxlan.isValid()
                && (hdr.outer_ipv4.isValid() && hdr.outer_ipv4.destination[31:8] == 0xe00000
                    || hdr.outer_ipv6.isValid() && (hdr.outer_ipv6.destination[127:112] == 0xff02
                        || hdr.outer_ipv6.destination[127:118] == 0x3fa))) {
                if (meta.punt_kind == punt_reason_t.none) {
                    meta.punt_kind = punt_reason_t.link_local;
                }
            } else if (!hdr.outer_ipv4.isValid() && !hdr.outer_ipv6.isValid()) {
                if (meta.punt_kind == punt_reason_t.none) {
                    drop(meta, drop_reason_t.underlay_not_ip);
                }
            } else if (hdr.outer_ethernet.destination[40:40] == 1) {
                if (meta.punt_kind != punt_reason_t.dhcp) {
                    drop(meta, drop_reason_t.underlay_other_mac);
                }
            } else if (hdr.outer_ipv4.isValid()) {
                own_address_v4.apply();
            } else {
                is_own = own_address_v6.apply().hit;
                if (!meta.one_pass_only && !is_own) {
                    vpc_prefix.apply();
                }
            }

            // A packet that is not VXLAN is no tenant's: it is for the gateway itself.
            if (!hdr.vxlan.isValid()) {
                if (!meta.one_pass_only && hdr.outer_vlan.isValid()
                    && hdr.outer_ethernet.destination[40:40] == 1) {
                    group_vlan.apply();
                }
                if (meta.one_pass_only || !meta.from_internet) {
                    punt.apply(hdr, meta, istd);
                }
            }
            if (meta.one_pass_only || !meta.from_internet) {
                if (hdr.outer_ipv4.isValid()) {
                    source_v4.apply();
                } else {
                    source_v6.apply();
                }
            }
        }
    }
}

#endif
