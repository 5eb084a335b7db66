// SPDX-License-Identifier: Apache-2.0
//
// ANT: where does a packet go on a Kubernetes node with Antrea? Twenty-two tables, numbered as in Antrea's documentation of
// 2021. The VLAN replaces the registers and marks that Antrea's flows match. Connection tracking is absent; tables that
// only steer packets through it forward them. ../README.md lists which parts are published and which are inferred.

#include <core.p4>
#include <pna.p4>

#include "../headers.p4"
#include "../parser.p4"

const table_t CLASSIFIER                 = 0;
const table_t SPOOF_GUARD                = 10;
const table_t ARP_RESPONDER              = 20;
const table_t SERVICE_HAIRPIN            = 23;
const table_t CONNTRACK                  = 30;
const table_t CONNTRACK_STATE            = 31;
const table_t SESSION_AFFINITY           = 40;
const table_t SERVICE_LB                 = 41;
const table_t ENDPOINT_DNAT              = 42;
const table_t ANTREA_POLICY_EGRESS_RULE  = 45;
const table_t EGRESS_RULE                = 50;
const table_t EGRESS_DEFAULT             = 60;
const table_t L3_FORWARDING              = 70;
const table_t SNAT                       = 71;
const table_t L3_DEC_TTL                 = 72;
const table_t L2_FORWARDING_CALC         = 80;
const table_t ANTREA_POLICY_INGRESS_RULE = 85;
const table_t INGRESS_RULE               = 90;
const table_t INGRESS_DEFAULT            = 100;
const table_t CONNTRACK_COMMIT           = 105;
const table_t HAIRPIN_SNAT               = 108;
const table_t L2_FORWARDING_OUT          = 110;

control ant(inout headers_t hdr,
            inout metadata_t meta,
            in pna_main_input_metadata_t istd,
            inout pna_main_output_metadata_t ostd) {
#include "../actions.p4"

    /// Decrements the TTL, after the tables that chose the next hop.
    action decrement(table_t next) {
        if (meta.expired) {
            expire();
        } else {
            one_hop_fewer();
            meta.next = next;
        }
    }

    /// RFC 826: replies that the requested station has `mac`. The sender is at `port`.
    action answer_arp(mac_t mac, PortId_t port) {
        ipv4_t asked = hdr.arp.target;
        hdr.arp.operation = ARP_REPLY;
        hdr.arp.target_mac = hdr.arp.sender_mac;
        hdr.arp.target = hdr.arp.sender;
        hdr.arp.sender_mac = mac;
        hdr.arp.sender = asked;
        hdr.ethernet.destination = hdr.ethernet.source;
        hdr.ethernet.source = mac;
        send_to_port(port);
        meta.next = END;
    }

    /// Does the packet come from a pod, the tunnel or the gateway?
    table classifier {
        key = {
            istd.input_port: exact @name("in_port");
            meta.vlan:       exact @name("vlan");
        }
        actions = { goto_table; @defaultonly refuse; }
        const default_action = refuse();
        size = 65536;
    }

    /// May the pod send with these addresses?
    table spoof_guard {
        key = {
            meta.vlan:           exact   @name("vlan");
            hdr.ethernet.source: ternary @name("dl_src");
            hdr.ipv4.source:     ternary @name("nw_src");
        }
        actions = { goto_table; @defaultonly refuse; }
        const default_action = refuse();
        size = 65536;
    }

    /// ARP requests that the node answers.
    table arp_responder {
        key = {
            meta.vlan:     exact   @name("vlan");
            meta.eth_type: ternary @name("eth_type");
        }
        actions = { answer_arp; @defaultonly refuse; }
        const default_action = refuse();
        size = 65536;
    }

    /// Does the packet return from a service to its sender?
    table service_hairpin {
        key = {
            meta.vlan:            exact   @name("vlan");
            hdr.ipv4.destination: ternary @name("nw_dst");
        }
        actions = { goto_table; }
        const default_action = goto_table(CONNTRACK);
        size = 65536;
    }

    /// Connection tracking (absent).
    table conntrack {
        key = {
            meta.vlan:     exact   @name("vlan");
            meta.eth_type: ternary @name("eth_type");
        }
        actions = { goto_table; }
        const default_action = goto_table(CONNTRACK_STATE);
        size = 65536;
    }

    /// Known connections skip services and policies.
    table conntrack_state {
        key = {
            meta.vlan:     exact   @name("vlan");
            meta.eth_type: ternary @name("eth_type");
        }
        actions = { goto_table; }
        const default_action = goto_table(SESSION_AFFINITY);
        size = 65536;
    }

    /// Does the service keep the client's endpoint?
    table session_affinity {
        key = {
            meta.vlan:            exact   @name("vlan");
            hdr.ipv4.source:      ternary @name("nw_src");
            hdr.ipv4.destination: ternary @name("nw_dst");
            hdr.ipv4.protocol:    ternary @name("nw_proto");
            hdr.l4.destination:   ternary @name("tp_dst");
        }
        actions = { goto_table; }
        const default_action = goto_table(SERVICE_LB);
        size = 65536;
    }

    /// Which service does the packet address?
    table service_lb {
        key = {
            meta.vlan:            exact   @name("vlan");
            hdr.ipv4.destination: ternary @name("nw_dst");
            hdr.ipv4.protocol:    ternary @name("nw_proto");
            hdr.l4.destination:   ternary @name("tp_dst");
        }
        actions = { goto_table; }
        const default_action = goto_table(ANTREA_POLICY_EGRESS_RULE);
        size = 65536;
    }

    /// The endpoint, without the address translation of connection tracking.
    table endpoint_dnat {
        key = {
            meta.vlan:         exact   @name("vlan");
            hdr.ipv4.protocol: ternary @name("nw_proto");
        }
        actions = { goto_table; }
        const default_action = goto_table(ANTREA_POLICY_EGRESS_RULE);
        size = 65536;
    }

    /// Does a policy of the cluster permit the packet to leave the pod?
    table antrea_policy_egress_rule {
        key = {
            meta.vlan:            exact   @name("vlan");
            hdr.ipv4.source:      ternary @name("nw_src");
            hdr.ipv4.destination: ternary @name("nw_dst");
            hdr.ipv4.protocol:    ternary @name("nw_proto");
            hdr.l4.destination:   ternary @name("tp_dst");
        }
        actions = { goto_table; deny; }
        const default_action = goto_table(EGRESS_RULE);
        size = 65536;
    }

    /// Does a policy of the namespace permit the packet to leave the pod?
    table egress_rule {
        key = {
            meta.vlan:            exact   @name("vlan");
            hdr.ipv4.source:      ternary @name("nw_src");
            hdr.ipv4.destination: ternary @name("nw_dst");
            hdr.ipv4.protocol:    ternary @name("nw_proto");
            hdr.l4.destination:   ternary @name("tp_dst");
        }
        actions = { goto_table; }
        const default_action = goto_table(EGRESS_DEFAULT);
        size = 65536;
    }

    /// Drops packets from a pod with policies if no policy permits them.
    table egress_default {
        key = {
            meta.vlan:       exact   @name("vlan");
            hdr.ipv4.source: ternary @name("nw_src");
        }
        actions = { goto_table; deny; }
        const default_action = goto_table(L3_FORWARDING);
        size = 65536;
    }

    /// The next hop, by the longest prefix. Within the node the packet is unchanged.
    table l3_forwarding {
        key = {
            meta.vlan:            exact @name("vlan");
            hdr.ipv4.destination: lpm   @name("nw_dst");
        }
        actions = { set_macs; @defaultonly goto_table; }
        const default_action = goto_table(L2_FORWARDING_CALC);
        size = 65536;
    }

    /// Source addresses for packets out of the cluster (connection tracking would translate them).
    table snat {
        key = {
            meta.vlan:     exact   @name("vlan");
            meta.eth_type: ternary @name("eth_type");
        }
        actions = { goto_table; }
        const default_action = goto_table(L3_DEC_TTL);
        size = 65536;
    }

    /// Decrements the TTL.
    table l3_dec_ttl {
        key = {
            meta.vlan:     exact   @name("vlan");
            meta.eth_type: ternary @name("eth_type");
        }
        actions = { decrement; @defaultonly goto_table; }
        const default_action = goto_table(L2_FORWARDING_CALC);
        size = 65536;
    }

    /// The output port.
    table l2_forwarding_calc {
        key = {
            meta.vlan:                exact @name("vlan");
            hdr.ethernet.destination: exact @name("dl_dst");
        }
        actions = { forward; @defaultonly refuse; }
        const default_action = refuse();
        size = 65536;
    }

    /// Does a policy of the cluster permit the packet to reach the pod?
    table antrea_policy_ingress_rule {
        key = {
            meta.vlan:            exact   @name("vlan");
            hdr.ipv4.source:      ternary @name("nw_src");
            hdr.ipv4.destination: ternary @name("nw_dst");
            hdr.ipv4.protocol:    ternary @name("nw_proto");
            hdr.l4.destination:   ternary @name("tp_dst");
        }
        actions = { goto_table; deny; }
        const default_action = goto_table(INGRESS_RULE);
        size = 65536;
    }

    /// Does a policy of the namespace permit the packet to reach the pod?
    table ingress_rule {
        key = {
            meta.vlan:          exact   @name("vlan");
            hdr.ipv4.source:    ternary @name("nw_src");
            hdr.ipv4.protocol:  ternary @name("nw_proto");
            hdr.l4.destination: ternary @name("tp_dst");
        }
        actions = { goto_table; }
        const default_action = goto_table(INGRESS_DEFAULT);
        size = 65536;
    }

    /// Drops packets to a pod with policies if no policy permits them.
    table ingress_default {
        key = {
            meta.vlan:     exact   @name("vlan");
            meta.eth_type: ternary @name("eth_type");
        }
        actions = { goto_table; deny; }
        const default_action = goto_table(CONNTRACK_COMMIT);
        size = 65536;
    }

    /// Connection tracking (absent).
    table conntrack_commit {
        key = {
            meta.vlan:     exact   @name("vlan");
            meta.eth_type: ternary @name("eth_type");
        }
        actions = { goto_table; }
        const default_action = goto_table(HAIRPIN_SNAT);
        size = 65536;
    }

    /// Does a pod reach itself through a service?
    table hairpin_snat {
        key = {
            meta.vlan:            exact   @name("vlan");
            hdr.ipv4.source:      ternary @name("nw_src");
            hdr.ipv4.destination: ternary @name("nw_dst");
        }
        actions = { goto_table; }
        const default_action = goto_table(L2_FORWARDING_OUT);
        size = 65536;
    }

    /// Sends the packet through the chosen port.
    table l2_forwarding_out {
        key = {
            meta.vlan:     exact   @name("vlan");
            meta.eth_type: ternary @name("eth_type");
        }
        actions = { goto_table; deny; @defaultonly refuse; }
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

        classifier.apply();
        if (meta.next == SPOOF_GUARD) {
            spoof_guard.apply();
        }
        if (meta.next == ARP_RESPONDER) {
            arp_responder.apply();
        }
        if (meta.next == SERVICE_HAIRPIN) {
            service_hairpin.apply();
        }
        if (meta.next == CONNTRACK) {
            conntrack.apply();
        }
        if (meta.next == CONNTRACK_STATE) {
            conntrack_state.apply();
        }
        if (meta.next == SESSION_AFFINITY) {
            session_affinity.apply();
        }
        if (meta.next == SERVICE_LB) {
            service_lb.apply();
        }
        if (meta.next == ENDPOINT_DNAT) {
            endpoint_dnat.apply();
        }
        if (meta.next == ANTREA_POLICY_EGRESS_RULE) {
            antrea_policy_egress_rule.apply();
        }
        if (meta.next == EGRESS_RULE) {
            egress_rule.apply();
        }
        if (meta.next == EGRESS_DEFAULT) {
            egress_default.apply();
        }
        if (meta.next == L3_FORWARDING) {
            l3_forwarding.apply();
        }
        if (meta.next == SNAT) {
            snat.apply();
        }
        if (meta.next == L3_DEC_TTL) {
            l3_dec_ttl.apply();
        }
        if (meta.next == L2_FORWARDING_CALC) {
            l2_forwarding_calc.apply();
        }
        if (meta.next == ANTREA_POLICY_INGRESS_RULE) {
            antrea_policy_ingress_rule.apply();
        }
        if (meta.next == INGRESS_RULE) {
            ingress_rule.apply();
        }
        if (meta.next == INGRESS_DEFAULT) {
            ingress_default.apply();
        }
        if (meta.next == CONNTRACK_COMMIT) {
            conntrack_commit.apply();
        }
        if (meta.next == HAIRPIN_SNAT) {
            hairpin_snat.apply();
        }
        if (meta.next == L2_FORWARDING_OUT) {
            l2_forwarding_out.apply();
        }
    }
}

PNA_NIC(vswitch_parser(), vswitch_pre(), ant(), vswitch_deparser()) main;
