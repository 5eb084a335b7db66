// SPDX-License-Identifier: Apache-2.0
//
// PSC: where does a packet go in the L2-L3-ACL switch of the PISCES paper? Seven tables: VLAN, learning, routing or
// switching, the policy, VLAN. ../README.md lists which parts are published and which are inferred.

#include <core.p4>
#include <pna.p4>

#include "../headers.p4"
#include "../parser.p4"

const table_t VLAN_INGRESS = 0;
const table_t MAC_LEARNING = 1;
const table_t ROUTABLE     = 2;
const table_t ROUTING      = 3;
const table_t SWITCHING    = 4;
const table_t ACL          = 5;
const table_t VLAN_EGRESS  = 6;

control psc(inout headers_t hdr,
            inout metadata_t meta,
            in pna_main_input_metadata_t istd,
            inout pna_main_output_metadata_t ostd) {
#include "../actions.p4"

    /// Removes the tag from the sent packet.
    action untag() {
        hdr.ethernet.ether_type = meta.eth_type;
        hdr.vlan.setInvalid();
        meta.next = END;
    }

    /// Is the VLAN allowed on the port?
    table vlan_ingress {
        key = {
            istd.input_port: exact @name("in_port");
            meta.vlan:       exact @name("vlan");
        }
        actions = { goto_table; @defaultonly refuse; }
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

    /// Is the packet for the router?
    table routable {
        key = {
            meta.vlan:                exact   @name("vlan");
            hdr.ethernet.destination: ternary @name("dl_dst");
        }
        actions = { goto_table; }
        const default_action = goto_table(SWITCHING);
        size = 65536;
    }

    /// The longest prefix.
    table routing {
        key = {
            meta.vlan:            exact @name("vlan");
            hdr.ipv4.destination: lpm   @name("nw_dst");
        }
        actions = { route; @defaultonly refuse; }
        const default_action = refuse();
        size = 65536;
    }

    /// The station.
    table switching {
        key = {
            meta.vlan:                exact @name("vlan");
            hdr.ethernet.destination: exact @name("dl_dst");
        }
        actions = { forward; @defaultonly refuse; }
        const default_action = refuse();
        size = 65536;
    }

    /// Does the policy permit the packet?
    table acl {
        key = {
            meta.vlan:            exact   @name("vlan");
            hdr.ipv4.source:      ternary @name("nw_src");
            hdr.ipv4.destination: ternary @name("nw_dst");
            hdr.ipv4.protocol:    ternary @name("nw_proto");
            hdr.l4.source:        ternary @name("tp_src");
            hdr.l4.destination:   ternary @name("tp_dst");
        }
        actions = { goto_table; deny; }
        const default_action = goto_table(VLAN_EGRESS);
        size = 65536;
    }

    /// Is the packet sent with its tag?
    table vlan_egress {
        key = {
            meta.vlan:     exact   @name("vlan");
            meta.out_port: ternary @name("out_port");
        }
        actions = { goto_table; untag; }
        const default_action = goto_table(END);
        size = 65536;
    }

    apply {
        // Drops a packet with a truncated header, because its fields read as 0 and tables would match them.
        if (istd.parser_error != error.NoError) {
            meta.drop_reason = drop_reason_t.malformed;
            drop_packet();
            exit;
        }

        vlan_ingress.apply();
        if (meta.next == MAC_LEARNING) {
            mac_learning.apply();
        }
        if (meta.next == ROUTABLE) {
            routable.apply();
        }
        if (meta.next == ROUTING) {
            routing.apply();
        }
        if (meta.next == SWITCHING) {
            switching.apply();
        }
        if (meta.next == ACL) {
            acl.apply();
        }
        if (meta.next == VLAN_EGRESS) {
            vlan_egress.apply();
        }
    }
}

PNA_NIC(vswitch_parser(), vswitch_pre(), psc(), vswitch_deparser()) main;
