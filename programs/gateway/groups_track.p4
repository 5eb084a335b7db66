// SPDX-License-Identifier: Apache-2.0
//
// Is the packet's flow known? One entry serves both directions: its key has the lower side first, and
// its data say which side began the flow, and by which rules (docs/decisions/0050-*). A packet of an
// unknown flow adds the entry when it is looked up a second time, after the rules have permitted it.
// So packets of known flows ask no rules (docs/decisions/0058-*).

#ifndef GATEWAY_GROUPS_TRACK_P4
#define GATEWAY_GROUPS_TRACK_P4

#include "metadata.p4"
#include "groups_flow.p4"
#include "verdicts.p4"

// Expire time profiles. TABLES.md has the times.
const ExpireTimeProfileId_t FLOW_OTHER          = (ExpireTimeProfileId_t) 4;
const ExpireTimeProfileId_t FLOW_ICMP           = (ExpireTimeProfileId_t) 5;
const ExpireTimeProfileId_t FLOW_TCP_TRANSITORY = (ExpireTimeProfileId_t) 6;
const ExpireTimeProfileId_t FLOW_TCP            = (ExpireTimeProfileId_t) 7;

/// VPCs that can have flows: all that have a number.
#define FLOW_OWNERS 1048576

/// Parameters of `tracked`.
struct tracked_t {
    bit<1>   low_opened;
    policy_t opener;
    policy_t target;
}

control groups_track_step(in headers_t hdr, inout metadata_t meta, in group_member_t from,
                          in group_member_t to, inout group_flow_t flow, in bool is_v4) {
    // One for each table, because packets of both versions then need no order among each other.
    EntryQuota(FLOW_OWNERS) vpc_flows_v4;
    EntryQuota(FLOW_OWNERS) vpc_flows_v6;

    /// A packet of a flow that the rules of `opener` and `target` permitted when it began. It restarts
    /// the idle time; an ICMP error does not (RFC 5508, section 4.4). TCP is established with the
    /// answer to its SYN, until a FIN or RST. No sequence number is checked, so neither ends the flow:
    /// it has a shorter idle time from then on (RFC 7857, section 2.2).
    action tracked(bit<1> low_opened, policy_t opener, policy_t target) {
        flow.from_opened = (low_opened == 1) == flow.from_is_low;
        flow.opener_then = opener;
        flow.target_then = target;
        if (flow.is_error) {
        } else if (flow.is_tcp) {
            bool closes = (hdr.l4_rest.flags & (TCP_FIN | TCP_RST)) != 0;
            bool opens = (hdr.l4_rest.flags & TCP_SYN) != 0 && !flow.from_opened;
            update_expire_info(true, closes || opens, closes ? FLOW_TCP_TRANSITORY : FLOW_TCP);
        } else {
            restart_expire_timer();
        }
    }

    /// The first packet of a flow adds it, if its VPC may have one more. A connection that is picked
    /// up counts as established.
    action add_flow(in bool has_share) {
        if (!has_share) {
            drop(meta, drop_reason_t.group_quota);
        }
        ExpireTimeProfileId_t profile = FLOW_OTHER;
        if (flow.is_tcp) {
            profile = (hdr.l4_rest.flags & (TCP_SYN | TCP_FIN)) == 0 ? FLOW_TCP : FLOW_TCP_TRANSITORY;
        } else if (flow.is_echo) {
            profile = FLOW_ICMP;
        }
        tracked_t data = { (bit<1>) flow.from_is_low, from.policy, to.policy };
        bool is_added = add_entry("tracked", data, profile);
        if (!is_added) {
            drop(meta, drop_reason_t.group_table_full);
        }
    }

    /// The flow counts for the VPC of the side that began it, or of the other one if that has no groups.
    action open_flow_v4() {
        if (flow.is_permitted) {
            bool has_share = from.policy != 0 ? vpc_flows_v4.take((bit<32>) from.vpc, from.max_flows)
                                              : vpc_flows_v4.take((bit<32>) to.vpc, to.max_flows);
            add_flow(has_share);
        }
    }

    /// As `open_flow_v4`.
    action open_flow_v6() {
        if (flow.is_permitted) {
            bool has_share = from.policy != 0 ? vpc_flows_v6.take((bit<32>) from.vpc, from.max_flows)
                                              : vpc_flows_v6.take((bit<32>) to.vpc, to.max_flows);
            add_flow(has_share);
        }
    }

    table flows_v4 {
        key = {
            flow.low_vni:      exact @name("low_vni");
            flow.high_vni:     exact @name("high_vni");
            flow.low_v4:       exact @name("low") @format(IPV4_ADDRESS);
            flow.high_v4:      exact @name("high") @format(IPV4_ADDRESS);
            flow.low_port:     exact @name("low_port");
            flow.high_port:    exact @name("high_port");
            flow.key_protocol: exact @name("protocol");
        }
        actions = { @tableonly tracked; @defaultonly open_flow_v4; }
        const default_action = open_flow_v4();
        add_on_miss = true;
        pna_idle_timeout = PNA_IdleTimeout_t.AUTO_DELETE;
        size = 4194304;
    }

    table flows_v6 {
        key = {
            flow.low_vni:      exact @name("low_vni");
            flow.high_vni:     exact @name("high_vni");
            flow.low_v6:       exact @name("low") @format(IPV6_ADDRESS);
            flow.high_v6:      exact @name("high") @format(IPV6_ADDRESS);
            flow.low_port:     exact @name("low_port");
            flow.high_port:    exact @name("high_port");
            flow.key_protocol: exact @name("protocol");
        }
        actions = { @tableonly tracked; @defaultonly open_flow_v6; }
        const default_action = open_flow_v6();
        add_on_miss = true;
        pna_idle_timeout = PNA_IdleTimeout_t.AUTO_DELETE;
        size = 4194304;
    }

    apply {
        if (is_v4) {
            flow.is_known = flows_v4.apply().hit;
        } else {
            flow.is_known = flows_v6.apply().hit;
        }
    }
}

#endif
