// SPDX-License-Identifier: Apache-2.0
//
// OLS: where does a packet go in a logical switch of OVN? Thirty tables, numbered as in OVN 20.03: twenty for ingress, ten
// for egress. The VLAN replaces the datapath, which OVN matches in every table. Connection tracking is absent; tables that
// only steer packets through it forward them. ../README.md lists which parts are published and which are inferred.

#include <core.p4>
#include <pna.p4>

#include "../headers.p4"
#include "../parser.p4"

const table_t LS_IN_PORT_SEC_L2   = 8;
const table_t LS_IN_PORT_SEC_IP   = 9;
const table_t LS_IN_PORT_SEC_ND   = 10;
const table_t LS_IN_PRE_ACL       = 11;
const table_t LS_IN_PRE_LB        = 12;
const table_t LS_IN_PRE_STATEFUL  = 13;
const table_t LS_IN_ACL           = 14;
const table_t LS_IN_QOS_MARK      = 15;
const table_t LS_IN_QOS_METER     = 16;
const table_t LS_IN_LB            = 17;
const table_t LS_IN_STATEFUL      = 18;
const table_t LS_IN_PRE_HAIRPIN   = 19;
const table_t LS_IN_HAIRPIN       = 20;
const table_t LS_IN_ARP_RSP       = 21;
const table_t LS_IN_DHCP_OPTIONS  = 22;
const table_t LS_IN_DHCP_RESPONSE = 23;
const table_t LS_IN_DNS_LOOKUP    = 24;
const table_t LS_IN_DNS_RESPONSE  = 25;
const table_t LS_IN_EXTERNAL_PORT = 26;
const table_t LS_IN_L2_LKUP       = 27;
const table_t LS_OUT_PRE_LB       = 40;
const table_t LS_OUT_PRE_ACL      = 41;
const table_t LS_OUT_PRE_STATEFUL = 42;
const table_t LS_OUT_LB           = 43;
const table_t LS_OUT_ACL          = 44;
const table_t LS_OUT_QOS_MARK     = 45;
const table_t LS_OUT_QOS_METER    = 46;
const table_t LS_OUT_STATEFUL     = 47;
const table_t LS_OUT_PORT_SEC_IP  = 48;
const table_t LS_OUT_PORT_SEC_L2  = 49;

control ols(inout headers_t hdr,
            inout metadata_t meta,
            in pna_main_input_metadata_t istd,
            inout pna_main_output_metadata_t ostd) {
#include "../actions.p4"

    /// Sets the class of service (DSCP, six bits) and updates the checksum (RFC 1624, equation 3).
    action mark(bit<6> dscp, table_t next) {
        bit<8>  after = dscp ++ hdr.ipv4.dscp_ecn[1:0];
        bit<18> sum = (bit<18>) hdr.ipv4.checksum + (bit<18>) hdr.ipv4.dscp_ecn + (bit<18>) ~(bit<16>) after;
        sum = (bit<18>) sum[15:0] + (bit<18>) sum[17:16];
        hdr.ipv4.checksum = sum[15:0] + (bit<16>) sum[17:16];
        hdr.ipv4.dscp_ecn = after;
        meta.next = next;
    }

    /// Sends the packet back to the sender, at `port`, from `mac`. The controller writes the contents of the reply.
    action turn_around(mac_t mac, PortId_t port) {
        hdr.ethernet.destination = hdr.ethernet.source;
        hdr.ethernet.source = mac;
        send_to_port(port);
        meta.next = END;
    }

    /// RFC 826: replies that the requested station has `mac`. The sender is at `port`.
    action answer_arp(mac_t mac, PortId_t port) {
        ipv4_t asked = hdr.arp.target;
        hdr.arp.operation = ARP_REPLY;
        hdr.arp.target_mac = hdr.arp.sender_mac;
        hdr.arp.target = hdr.arp.sender;
        hdr.arp.sender_mac = mac;
        hdr.arp.sender = asked;
        turn_around(mac, port);
    }

    /// May the port send with this source?
    table ls_in_port_sec_l2 {
        key = {
            meta.vlan:           exact   @name("vlan");
            istd.input_port:     ternary @name("in_port");
            hdr.ethernet.source: ternary @name("dl_src");
        }
        actions = { goto_table; @defaultonly refuse; }
        const default_action = refuse();
        size = 65536;
    }

    /// May the station send with this address?
    table ls_in_port_sec_ip {
        key = {
            meta.vlan:           exact   @name("vlan");
            hdr.ethernet.source: ternary @name("dl_src");
            hdr.ipv4.source:     ternary @name("nw_src");
        }
        actions = { goto_table; deny; }
        const default_action = goto_table(LS_IN_PORT_SEC_ND);
        size = 65536;
    }

    /// May the station send these ARP fields?
    table ls_in_port_sec_nd {
        key = {
            meta.vlan:           exact   @name("vlan");
            hdr.ethernet.source: ternary @name("dl_src");
            meta.eth_type:       ternary @name("eth_type");
        }
        actions = { goto_table; deny; }
        const default_action = goto_table(LS_IN_PRE_ACL);
        size = 65536;
    }

    /// Does the switch have ACLs? (In OVN, the packet then passes connection tracking first.)
    table ls_in_pre_acl {
        key = {
            meta.vlan:     exact   @name("vlan");
            meta.eth_type: ternary @name("eth_type");
        }
        actions = { goto_table; }
        const default_action = goto_table(LS_IN_PRE_LB);
        size = 65536;
    }

    /// Is the destination the address of a load balancer?
    table ls_in_pre_lb {
        key = {
            meta.vlan:            exact   @name("vlan");
            hdr.ipv4.destination: ternary @name("nw_dst");
        }
        actions = { goto_table; }
        const default_action = goto_table(LS_IN_PRE_STATEFUL);
        size = 65536;
    }

    /// Connection tracking, if an earlier table requested it.
    table ls_in_pre_stateful {
        key = {
            meta.vlan:     exact   @name("vlan");
            meta.eth_type: ternary @name("eth_type");
        }
        actions = { goto_table; }
        const default_action = goto_table(LS_IN_ACL);
        size = 65536;
    }

    /// Do the ACLs permit the packet to leave the station?
    table ls_in_acl {
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
        const default_action = goto_table(LS_IN_QOS_MARK);
        size = 65536;
    }

    /// Which class of service does the packet have?
    table ls_in_qos_mark {
        key = {
            meta.vlan:            exact   @name("vlan");
            hdr.ipv4.source:      ternary @name("nw_src");
            hdr.ipv4.destination: ternary @name("nw_dst");
            hdr.ipv4.protocol:    ternary @name("nw_proto");
            hdr.l4.destination:   ternary @name("tp_dst");
        }
        actions = { mark; goto_table; }
        const default_action = goto_table(LS_IN_QOS_METER);
        size = 65536;
    }

    /// Which meter measures the packet? (The meter is absent.)
    table ls_in_qos_meter {
        key = {
            meta.vlan:            exact   @name("vlan");
            hdr.ipv4.source:      ternary @name("nw_src");
            hdr.ipv4.destination: ternary @name("nw_dst");
            hdr.ipv4.protocol:    ternary @name("nw_proto");
            hdr.l4.destination:   ternary @name("tp_dst");
        }
        actions = { goto_table; }
        const default_action = goto_table(LS_IN_LB);
        size = 65536;
    }

    /// Connections that a load balancer has already assigned.
    table ls_in_lb {
        key = {
            meta.vlan:     exact   @name("vlan");
            meta.eth_type: ternary @name("eth_type");
        }
        actions = { goto_table; }
        const default_action = goto_table(LS_IN_STATEFUL);
        size = 65536;
    }

    /// New connections to a load balancer.
    table ls_in_stateful {
        key = {
            meta.vlan:            exact   @name("vlan");
            hdr.ipv4.destination: ternary @name("nw_dst");
            hdr.ipv4.protocol:    ternary @name("nw_proto");
            hdr.l4.destination:   ternary @name("tp_dst");
        }
        actions = { goto_table; }
        const default_action = goto_table(LS_IN_PRE_HAIRPIN);
        size = 65536;
    }

    /// Does a balanced packet return to its sender?
    table ls_in_pre_hairpin {
        key = {
            meta.vlan:            exact   @name("vlan");
            hdr.ipv4.source:      ternary @name("nw_src");
            hdr.ipv4.destination: ternary @name("nw_dst");
        }
        actions = { goto_table; }
        const default_action = goto_table(LS_IN_HAIRPIN);
        size = 65536;
    }

    /// Sends such a packet out through its input port.
    table ls_in_hairpin {
        key = {
            meta.vlan:     exact   @name("vlan");
            meta.eth_type: ternary @name("eth_type");
        }
        actions = { turn_around; goto_table; }
        const default_action = goto_table(LS_IN_L2_LKUP);
        size = 65536;
    }

    /// ARP requests that the switch answers.
    table ls_in_arp_rsp {
        key = {
            meta.vlan:     exact   @name("vlan");
            meta.eth_type: ternary @name("eth_type");
        }
        actions = { answer_arp; goto_table; }
        const default_action = goto_table(LS_IN_L2_LKUP);
        size = 65536;
    }

    /// DHCP requests that the switch answers with the options of the port.
    table ls_in_dhcp_options {
        key = {
            meta.vlan:            exact   @name("vlan");
            hdr.ethernet.source:  ternary @name("dl_src");
            hdr.ipv4.source:      ternary @name("nw_src");
            hdr.ipv4.destination: ternary @name("nw_dst");
            hdr.ipv4.protocol:    ternary @name("nw_proto");
            hdr.l4.source:        ternary @name("tp_src");
            hdr.l4.destination:   ternary @name("tp_dst");
        }
        actions = { goto_table; }
        const default_action = goto_table(LS_IN_L2_LKUP);
        size = 65536;
    }

    /// The DHCP reply.
    table ls_in_dhcp_response {
        key = {
            meta.vlan:           exact   @name("vlan");
            hdr.ethernet.source: ternary @name("dl_src");
            hdr.ipv4.protocol:   ternary @name("nw_proto");
            hdr.l4.source:       ternary @name("tp_src");
            hdr.l4.destination:  ternary @name("tp_dst");
        }
        actions = { turn_around; @defaultonly refuse; }
        const default_action = refuse();
        size = 65536;
    }

    /// DNS requests for names that the switch knows.
    table ls_in_dns_lookup {
        key = {
            meta.vlan:          exact   @name("vlan");
            hdr.ipv4.protocol:  ternary @name("nw_proto");
            hdr.l4.destination: ternary @name("tp_dst");
        }
        actions = { goto_table; }
        const default_action = goto_table(LS_IN_L2_LKUP);
        size = 65536;
    }

    /// The DNS reply.
    table ls_in_dns_response {
        key = {
            meta.vlan:          exact   @name("vlan");
            hdr.ipv4.protocol:  ternary @name("nw_proto");
            hdr.l4.destination: ternary @name("tp_dst");
        }
        actions = { turn_around; @defaultonly refuse; }
        const default_action = refuse();
        size = 65536;
    }

    /// Requests of external ports that another chassis answers.
    table ls_in_external_port {
        key = {
            meta.vlan:           exact   @name("vlan");
            hdr.ethernet.source: ternary @name("dl_src");
        }
        actions = { goto_table; deny; }
        const default_action = goto_table(LS_IN_L2_LKUP);
        size = 65536;
    }

    /// The station.
    table ls_in_l2_lkup {
        key = {
            meta.vlan:                exact @name("vlan");
            hdr.ethernet.destination: exact @name("dl_dst");
        }
        actions = { forward; @defaultonly refuse; }
        const default_action = refuse();
        size = 65536;
    }

    /// Egress counterparts of earlier tables: load balancers,
    table ls_out_pre_lb {
        key = {
            meta.vlan:     exact   @name("vlan");
            meta.eth_type: ternary @name("eth_type");
        }
        actions = { goto_table; }
        const default_action = goto_table(LS_OUT_PRE_ACL);
        size = 65536;
    }

    /// ACLs,
    table ls_out_pre_acl {
        key = {
            meta.vlan:     exact   @name("vlan");
            meta.eth_type: ternary @name("eth_type");
        }
        actions = { goto_table; }
        const default_action = goto_table(LS_OUT_PRE_STATEFUL);
        size = 65536;
    }

    /// connection tracking,
    table ls_out_pre_stateful {
        key = {
            meta.vlan:     exact   @name("vlan");
            meta.eth_type: ternary @name("eth_type");
        }
        actions = { goto_table; }
        const default_action = goto_table(LS_OUT_LB);
        size = 65536;
    }

    /// assigned connections.
    table ls_out_lb {
        key = {
            meta.vlan:     exact   @name("vlan");
            meta.eth_type: ternary @name("eth_type");
        }
        actions = { goto_table; }
        const default_action = goto_table(LS_OUT_ACL);
        size = 65536;
    }

    /// Do the ACLs permit the packet to reach the station?
    table ls_out_acl {
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
        const default_action = goto_table(LS_OUT_QOS_MARK);
        size = 65536;
    }

    /// Which class of service does the packet have?
    table ls_out_qos_mark {
        key = {
            meta.vlan:            exact   @name("vlan");
            hdr.ipv4.source:      ternary @name("nw_src");
            hdr.ipv4.destination: ternary @name("nw_dst");
            hdr.ipv4.protocol:    ternary @name("nw_proto");
            hdr.l4.destination:   ternary @name("tp_dst");
        }
        actions = { mark; goto_table; }
        const default_action = goto_table(LS_OUT_QOS_METER);
        size = 65536;
    }

    /// Which meter measures the packet? (The meter is absent.)
    table ls_out_qos_meter {
        key = {
            meta.vlan:            exact   @name("vlan");
            hdr.ipv4.source:      ternary @name("nw_src");
            hdr.ipv4.destination: ternary @name("nw_dst");
            hdr.ipv4.protocol:    ternary @name("nw_proto");
            hdr.l4.destination:   ternary @name("tp_dst");
        }
        actions = { goto_table; }
        const default_action = goto_table(LS_OUT_STATEFUL);
        size = 65536;
    }

    /// Connection tracking.
    table ls_out_stateful {
        key = {
            meta.vlan:     exact   @name("vlan");
            meta.eth_type: ternary @name("eth_type");
        }
        actions = { goto_table; }
        const default_action = goto_table(LS_OUT_PORT_SEC_IP);
        size = 65536;
    }

    /// May the station receive packets for this address?
    table ls_out_port_sec_ip {
        key = {
            meta.vlan:                exact   @name("vlan");
            hdr.ethernet.destination: ternary @name("dl_dst");
            hdr.ipv4.destination:     ternary @name("nw_dst");
        }
        actions = { goto_table; deny; }
        const default_action = goto_table(LS_OUT_PORT_SEC_L2);
        size = 65536;
    }

    /// May the port receive packets for this station?
    table ls_out_port_sec_l2 {
        key = {
            meta.vlan:                exact   @name("vlan");
            hdr.ethernet.destination: ternary @name("dl_dst");
        }
        actions = { goto_table; @defaultonly refuse; }
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

        ls_in_port_sec_l2.apply();
        if (meta.next == LS_IN_PORT_SEC_IP) {
            ls_in_port_sec_ip.apply();
        }
        if (meta.next == LS_IN_PORT_SEC_ND) {
            ls_in_port_sec_nd.apply();
        }
        if (meta.next == LS_IN_PRE_ACL) {
            ls_in_pre_acl.apply();
        }
        if (meta.next == LS_IN_PRE_LB) {
            ls_in_pre_lb.apply();
        }
        if (meta.next == LS_IN_PRE_STATEFUL) {
            ls_in_pre_stateful.apply();
        }
        if (meta.next == LS_IN_ACL) {
            ls_in_acl.apply();
        }
        if (meta.next == LS_IN_QOS_MARK) {
            ls_in_qos_mark.apply();
        }
        if (meta.next == LS_IN_QOS_METER) {
            ls_in_qos_meter.apply();
        }
        if (meta.next == LS_IN_LB) {
            ls_in_lb.apply();
        }
        if (meta.next == LS_IN_STATEFUL) {
            ls_in_stateful.apply();
        }
        if (meta.next == LS_IN_PRE_HAIRPIN) {
            ls_in_pre_hairpin.apply();
        }
        if (meta.next == LS_IN_HAIRPIN) {
            ls_in_hairpin.apply();
        }
        if (meta.next == LS_IN_ARP_RSP) {
            ls_in_arp_rsp.apply();
        }
        if (meta.next == LS_IN_DHCP_OPTIONS) {
            ls_in_dhcp_options.apply();
        }
        if (meta.next == LS_IN_DHCP_RESPONSE) {
            ls_in_dhcp_response.apply();
        }
        if (meta.next == LS_IN_DNS_LOOKUP) {
            ls_in_dns_lookup.apply();
        }
        if (meta.next == LS_IN_DNS_RESPONSE) {
            ls_in_dns_response.apply();
        }
        if (meta.next == LS_IN_EXTERNAL_PORT) {
            ls_in_external_port.apply();
        }
        if (meta.next == LS_IN_L2_LKUP) {
            ls_in_l2_lkup.apply();
        }
        if (meta.next == LS_OUT_PRE_LB) {
            ls_out_pre_lb.apply();
        }
        if (meta.next == LS_OUT_PRE_ACL) {
            ls_out_pre_acl.apply();
        }
        if (meta.next == LS_OUT_PRE_STATEFUL) {
            ls_out_pre_stateful.apply();
        }
        if (meta.next == LS_OUT_LB) {
            ls_out_lb.apply();
        }
        if (meta.next == LS_OUT_ACL) {
            ls_out_acl.apply();
        }
        if (meta.next == LS_OUT_QOS_MARK) {
            ls_out_qos_mark.apply();
        }
        if (meta.next == LS_OUT_QOS_METER) {
            ls_out_qos_meter.apply();
        }
        if (meta.next == LS_OUT_STATEFUL) {
            ls_out_stateful.apply();
        }
        if (meta.next == LS_OUT_PORT_SEC_IP) {
            ls_out_port_sec_ip.apply();
        }
        if (meta.next == LS_OUT_PORT_SEC_L2) {
            ls_out_port_sec_l2.apply();
        }
    }
}

PNA_NIC(vswitch_parser(), vswitch_pre(), ols(), vswitch_deparser()) main;
