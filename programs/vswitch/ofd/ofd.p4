// SPDX-License-Identifier: Apache-2.0
//
// OFD: where does a packet go in the OpenFlow Data Plane Abstraction, as CORD's ONOS configures it? Ten tables with the
// same numbers: admission by port and VLAN, then bridging, routing, multicast or MPLS, then the policy. ../README.md lists
// which parts are published and which are inferred.

#include <core.p4>
#include <pna.p4>

#include "../headers.p4"
#include "../parser.p4"

const table_t INGRESS_PORT      = 0;
const table_t VLAN              = 10;
const table_t TERMINATION_MAC   = 20;
const table_t MPLS_0            = 23;
const table_t MPLS_1            = 24;
const table_t UNICAST_ROUTING   = 30;
const table_t MULTICAST_ROUTING = 40;
const table_t BRIDGING          = 50;
const table_t POLICY_ACL        = 60;
const table_t MAC_LEARNING      = 254;

control ofd(inout headers_t hdr,
            inout metadata_t meta,
            in pna_main_input_metadata_t istd,
            inout pna_main_output_metadata_t ostd) {
#include "../actions.p4"

    /// Removes the outer label.
    action pop_outer(table_t next) {
        hdr.mpls_outer.setInvalid();
        meta.next = next;
    }

    /// Removes the last label; IPv4 follows.
    action pop_inner(table_t next) {
        hdr.mpls_inner.setInvalid();
        if (hdr.vlan.isValid()) {
            hdr.vlan.ether_type = ETHERTYPE_IPV4;
        } else {
            hdr.ethernet.ether_type = ETHERTYPE_IPV4;
        }
        meta.next = next;
    }

    /// Switches labels: a new label and a port.
    action swap_inner(label_t label, PortId_t port, table_t next) {
        hdr.mpls_inner.label = label;
        send_to_port(port);
        meta.out_port = port;
        meta.next = next;
    }

    /// Is the port in use?
    table ingress_port {
        key = {
            istd.input_port: exact @name("in_port");
        }
        actions = { goto_table; @defaultonly refuse; }
        const default_action = refuse();
        size = 65536;
    }

    /// Is the VLAN allowed on the port?
    table vlan {
        key = {
            istd.input_port: exact @name("in_port");
            meta.vlan:       exact @name("vlan");
        }
        actions = { goto_table; @defaultonly refuse; }
        const default_action = refuse();
        size = 65536;
    }

    /// Is the packet for a router of this switch, and for which one: unicast, multicast, MPLS? Other packets are bridged.
    table termination_mac {
        key = {
            meta.vlan:                exact   @name("vlan");
            meta.eth_type:            ternary @name("eth_type");
            hdr.ethernet.destination: ternary @name("dl_dst");
        }
        actions = { goto_table; }
        const default_action = goto_table(BRIDGING);
        size = 65536;
    }

    /// The outer label.
    table mpls_0 {
        key = {
            meta.vlan:            exact @name("vlan");
            hdr.mpls_outer.label: exact @name("mpls_outer");
        }
        actions = { pop_outer; @defaultonly refuse; }
        const default_action = refuse();
        size = 65536;
    }

    /// The inner label: the end of a tunnel with a routed packet, or a transit switch.
    table mpls_1 {
        key = {
            meta.vlan:            exact @name("vlan");
            hdr.mpls_inner.label: exact @name("mpls_inner");
        }
        actions = { pop_inner; swap_inner; @defaultonly refuse; }
        const default_action = refuse();
        size = 65536;
    }

    /// The longest prefix.
    table unicast_routing {
        key = {
            meta.vlan:            exact @name("vlan");
            hdr.ipv4.destination: lpm   @name("nw_dst");
        }
        actions = { route; @defaultonly refuse; }
        const default_action = refuse();
        size = 65536;
    }

    /// A source and a group; one port represents the group of ports.
    table multicast_routing {
        key = {
            meta.vlan:            exact   @name("vlan");
            hdr.ipv4.source:      ternary @name("nw_src");
            hdr.ipv4.destination: ternary @name("nw_dst");
        }
        actions = { forward; @defaultonly refuse; }
        const default_action = refuse();
        size = 65536;
    }

    /// The station.
    table bridging {
        key = {
            meta.vlan:                exact @name("vlan");
            hdr.ethernet.destination: exact @name("dl_dst");
        }
        actions = { forward; @defaultonly refuse; }
        const default_action = refuse();
        size = 65536;
    }

    /// Does the policy permit the packet?
    table policy_acl {
        key = {
            meta.vlan:                exact   @name("vlan");
            hdr.ethernet.source:      ternary @name("dl_src");
            hdr.ethernet.destination: ternary @name("dl_dst");
            hdr.ipv4.source:          ternary @name("nw_src");
            hdr.ipv4.destination:     ternary @name("nw_dst");
            hdr.ipv4.protocol:        ternary @name("nw_proto");
            hdr.l4.source:            ternary @name("tp_src");
            hdr.l4.destination:       ternary @name("tp_dst");
        }
        actions = { goto_table; deny; to_controller; }
        const default_action = goto_table(END);
        size = 65536;
    }

    /// A station that the policy sends to the controller for learning: is it known now?
    table mac_learning {
        key = {
            meta.vlan:           exact @name("vlan");
            hdr.ethernet.source: exact @name("dl_src");
        }
        actions = { goto_table; @defaultonly unknown_station; }
        const default_action = unknown_station();
        size = 65536;
    }

    apply {
        // Drops a packet with a truncated header, because its fields read as 0 and tables would match them.
        if (istd.parser_error != error.NoError) {
            meta.drop_reason = drop_reason_t.malformed;
            drop_packet();
            exit;
        }

        ingress_port.apply();
        if (meta.next == VLAN) {
            vlan.apply();
        }
        if (meta.next == TERMINATION_MAC) {
            termination_mac.apply();
        }
        if (meta.next == MPLS_0) {
            mpls_0.apply();
        }
        if (meta.next == MPLS_1) {
            mpls_1.apply();
        }
        if (meta.next == UNICAST_ROUTING) {
            unicast_routing.apply();
        }
        if (meta.next == MULTICAST_ROUTING) {
            multicast_routing.apply();
        }
        if (meta.next == BRIDGING) {
            bridging.apply();
        }
        if (meta.next == POLICY_ACL) {
            policy_acl.apply();
        }
        if (meta.next == MAC_LEARNING) {
            mac_learning.apply();
        }
    }
}

PNA_NIC(vswitch_parser(), vswitch_pre(), ofd(), vswitch_deparser()) main;
