// SPDX-License-Identifier: Apache-2.0
//
// Do the security groups of both VMs permit the packet? A packet of a known flow passes. The rules are
// asked for packets of unknown flows, and for those of a flow that began by other rules than
// those of now: a change of rules ends the flows that it no longer permits, with their next packet, and
// no session has to be searched.
//
// The step runs where both directions see the VM's own address: behind the NAT for packets from the
// Internet, before it for those to the Internet.

#ifndef GATEWAY_GROUPS_P4
#define GATEWAY_GROUPS_P4

#include "metadata.p4"
#include "verdicts.p4"
#include "groups_flow.p4"
#include "groups_member.p4"
#include "groups_key.p4"
#include "groups_judge.p4"
#include "groups_track.p4"
#include "internet_v6.p4"

/// The policy of a VM in no group, for packets to and from the Internet over IPv6, if its VPC takes only
/// answers: all that it sends is permitted, and nothing that is sent to it. No rule has this number.
const policy_t ANSWERS_ONLY = 1;

control groups_step(in headers_t hdr, inout metadata_t meta, in internet_v6_t internet) {
    groups_flow_step()     groups_flow;
    groups_member_step()   member_from;
    groups_member_step()   member_to;
    groups_key_step()      groups_key;
    groups_judge_step()    judge;
    groups_track_step()    groups_track;

    group_flow_t    flow;
    group_member_t  from;
    group_member_t  to;
    group_member_t  opener;       // the side that began the flow, and the other one
    group_member_t  target;
    group_verdict_t verdict;
    bit<16>         service;

    /// Drops a packet that cannot begin a flow, or that the rules do not permit to begin one.
    action refuse_denied() {
        if (flow.opens) {
            flow.unknown = drop_reason_t.none;
            if (!verdict.allows_out) {
                flow.unknown = drop_reason_t.group_denied_out;
            } else if (!verdict.allows_in) {
                flow.unknown = drop_reason_t.group_denied_in;
            }
        }
        if (to.policy == ANSWERS_ONLY && flow.unknown != drop_reason_t.none) {
            flow.unknown = drop_reason_t.internet_unasked;
        }
        if (flow.unknown != drop_reason_t.none) {
            drop(meta, flow.unknown);
        }
    }

    apply {
        groups_flow.apply(hdr, meta, flow);
        member_from.apply(hdr, flow.from_vm, flow.from_vni, flow.from_v4, flow.from_v6, from);
        member_to.apply(hdr, flow.to_vm, flow.to_vni, flow.to_v4, flow.to_v6, to);
        if (internet.answers_only) {
            if (flow.from_vm && from.policy == 0) {
                from.policy = ANSWERS_ONLY;
                from.any_in = false;
                from.keeps = internet.keeps;
                from.picks_up = internet.picks_up;
                from.vpc = meta.vpc;
                from.max_flows = internet.max_flows;
            } else if (flow.to_vm && to.policy == 0) {
                to.policy = ANSWERS_ONLY;
                to.any_in = false;
                to.keeps = internet.keeps;
                to.picks_up = internet.picks_up;
                to.vpc = meta.vpc;
            }
        }
        if (from.policy != 0 || to.policy != 0) {
            if (flow.refusal != drop_reason_t.none) {
                drop(meta, flow.refusal);
            }
            // A connection of which the gateway has not seen the first packet.
            if (flow.is_tcp && !flow.is_error && hdr.l4_rest.isValid() && from.picks_up && to.picks_up
                && (hdr.l4_rest.flags & (TCP_SYN | TCP_RST)) == 0) {
                flow.opens = true;
            }

            if (flow.is_message) {
                if (flow.opens) {
                    judge.apply(hdr.inner_ipv4.isValid(), from, to, flow.from_v4, flow.from_v6, flow.to_v4,
                                flow.to_v6, flow.protocol, flow.service, verdict);
                }
                refuse_denied();
            } else {
                groups_key.apply(hdr, flow);
                flow.is_permitted = false;
                // A packet of an unknown flow is looked up again, to add it. Each version has its own
                // steps, because only packets of one version then wait for each other.
                if (hdr.inner_ipv4.isValid()) {
                    groups_track.apply(hdr, meta, from, to, flow, true);
                    if (!flow.is_known) {
                        if (flow.opens) {
                            judge.apply(true, from, to, flow.from_v4, flow.from_v6, flow.to_v4, flow.to_v6,
                                        flow.protocol, flow.service, verdict);
                        }
                        refuse_denied();
                        flow.is_permitted = true;
                        groups_track.apply(hdr, meta, from, to, flow, true);
                    }
                } else {
                    groups_track.apply(hdr, meta, from, to, flow, false);
                    if (!flow.is_known) {
                        if (flow.opens) {
                            judge.apply(false, from, to, flow.from_v4, flow.from_v6, flow.to_v4, flow.to_v6,
                                        flow.protocol, flow.service, verdict);
                        }
                        refuse_denied();
                        flow.is_permitted = true;
                        groups_track.apply(hdr, meta, from, to, flow, false);
                    }
                }

                // Do the rules of now permit a flow that began by others? They are asked about the
                // packet that began it.
                if (flow.from_opened) {
                    opener = from;
                    target = to;
                } else {
                    opener = to;
                    target = from;
                }
                if (flow.is_known && !(from.keeps && to.keeps)
                    && (opener.policy != flow.opener_then || target.policy != flow.target_then)) {
                    if (flow.from_opened) {
                        service = flow.to_port;
                    } else {
                        service = flow.from_port;
                    }
                    if (flow.protocol == PROTOCOL_ICMP) {
                        service = ICMP_ECHO_REQUEST ++ 8w0;
                    } else if (flow.protocol == PROTOCOL_ICMPV6) {
                        service = ICMPV6_ECHO_REQUEST ++ 8w0;
                    }
                    judge.apply(hdr.inner_ipv4.isValid(), opener, target,
                                flow.from_opened ? flow.from_v4 : flow.to_v4,
                                flow.from_opened ? flow.from_v6 : flow.to_v6,
                                flow.from_opened ? flow.to_v4 : flow.from_v4,
                                flow.from_opened ? flow.to_v6 : flow.from_v6,
                                flow.protocol, service, verdict);
                    if (!verdict.allows_out || !verdict.allows_in) {
                        drop(meta, drop_reason_t.group_flow_ended);
                    }
                }
            }
        }
    }
}

#endif
