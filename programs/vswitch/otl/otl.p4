// SPDX-License-Identifier: Apache-2.0
//
// OTL: where does a packet go in the L2-L3-ACL example of the Open Networking Foundation's table type patterns, as in
// OpenDaylight? Eight tables. ../README.md lists which parts are published and which are inferred.

#include <core.p4>
#include <pna.p4>

#include "../headers.p4"
#include "../parser.p4"

const table_t CONTROL_FRAME = 0;
const table_t INGRESS_VLAN  = 10;
const table_t MAC_LEARNING  = 20;
const table_t ACL           = 30;
const table_t L2            = 40;
const table_t PROTO_FILTER  = 50;
const table_t IPV4          = 60;
const table_t IPV6          = 80;

control otl(inout headers_t hdr,
            inout metadata_t meta,
            in pna_main_input_metadata_t istd,
            inout pna_main_output_metadata_t ostd) {
#include "../actions.p4"

    /// Link protocols, by their group address.
    table control_frame {
        key = {
            hdr.ethernet.destination: ternary @name("dl_dst");
        }
        actions = { to_controller; @defaultonly goto_table; }
        const default_action = goto_table(INGRESS_VLAN);
        size = 65536;
    }

    /// Is the VLAN allowed on the port, and does it learn stations?
    table ingress_vlan {
        key = {
            istd.input_port: exact @name("in_port");
            meta.vlan:       exact @name("vlan");
        }
        actions = { goto_table; deny; @defaultonly refuse; }
        const default_action = refuse();
        size = 65536;
    }

    /// Is the source known?
    table mac_learning {
        key = {
            meta.vlan:           exact @name("vlan");
            hdr.ethernet.source: exact @name("dl_src");
        }
        actions = { goto_table; @defaultonly unknown_station; }
        const default_action = unknown_station();
        size = 65536;
    }

    /// Does the policy permit the packet?
    table acl {
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
        actions = { goto_table; deny; }
        const default_action = goto_table(L2);
        size = 65536;
    }

    /// The station, or a router of this switch.
    table l2 {
        key = {
            meta.vlan:                exact @name("vlan");
            hdr.ethernet.destination: exact @name("dl_dst");
        }
        actions = { forward; goto_table; @defaultonly refuse; }
        const default_action = refuse();
        size = 65536;
    }

    /// Which protocols are routed?
    table proto_filter {
        key = {
            meta.vlan:     exact   @name("vlan");
            meta.eth_type: ternary @name("eth_type");
        }
        actions = { goto_table; deny; @defaultonly refuse; }
        const default_action = refuse();
        size = 65536;
    }

    /// The longest prefix.
    table ipv4 {
        key = {
            meta.vlan:            exact @name("vlan");
            hdr.ipv4.destination: lpm   @name("nw_dst");
        }
        actions = { route; @defaultonly refuse; }
        const default_action = refuse();
        size = 65536;
    }

    /// The longest prefix.
    table ipv6 {
        key = {
            meta.vlan:            exact @name("vlan");
            hdr.ipv6.destination: lpm   @name("ipv6_dst");
        }
        actions = { route; @defaultonly refuse; }
        const default_action = refuse();
        size = 65536;
    }

    apply {
        // Drops a packet with a truncated header, because its fields read as 0 and tables would match them.
        if (istd.parser_error != error.NoError) {
            meta.drop_reason = drop_reason_t.malformed;
            drop_packet();
            exit;
        }

        control_frame.apply();
        if (meta.next == INGRESS_VLAN) {
            ingress_vlan.apply();
        }
        if (meta.next == MAC_LEARNING) {
            mac_learning.apply();
        }
        if (meta.next == ACL) {
            acl.apply();
        }
        if (meta.next == L2) {
            l2.apply();
        }
        if (meta.next == PROTO_FILTER) {
            proto_filter.apply();
        }
        if (meta.next == IPV4) {
            ipv4.apply();
        }
        if (meta.next == IPV6) {
            ipv6.apply();
        }
    }
}

PNA_NIC(vswitch_parser(), vswitch_pre(), otl(), vswitch_deparser()) main;
