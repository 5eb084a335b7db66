// SPDX-License-Identifier: Apache-2.0
//
// Do the security groups of both VMs permit the packet? A packet of a known flow passes. The rules are
// asked for packets that may begin a flow, and for those of a flow that began by other rules than
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
#include "groups_rules.p4"
#include "groups_track.p4"
#include "groups_fragment.p4"

control groups_step(in headers_t hdr, inout metadata_t meta) {
    groups_flow_step()     groups_flow;
    groups_member_step()   member_from;
    groups_member_step()   member_to;
    groups_rules_step()    rules_out;
    groups_rules_step()    rules_in;
    groups_track_step()    groups_track;
    groups_fragment_step() groups_fragment;

    group_flow_t   flow;
    group_member_t from;
    group_member_t to;
    group_member_t opener;       // the side that began the flow, and the other one
    group_member_t target;
    bool           allows_out;
    bool           allows_in;
    bit<16>        service;

    apply {
        groups_flow.apply(hdr, meta, flow);
        member_from.apply(hdr, flow.from_vm, flow.from_vni, flow.from_v4, flow.from_v6, from);
        member_to.apply(hdr, flow.to_vm, flow.to_vni, flow.to_v4, flow.to_v6, to);
        if (from.policy != 0 || to.policy != 0) {
            if (flow.refusal != drop_reason_t.none) {
                drop(meta, flow.refusal);
            }
            // A connection of which the gateway has not seen the first packet.
            if (flow.is_tcp && !flow.is_error && hdr.l4_rest.isValid() && from.picks_up && to.picks_up
                && (hdr.l4_rest.flags & (TCP_SYN | TCP_RST)) == 0) {
                flow.opens = true;
            }

            if (flow.opens) {
                allows_out = from.any_out;
                if (!allows_out) {
                    rules_out.apply(hdr, from.policy, to.policy, flow.to_v4, flow.to_v6, flow.protocol,
                                    flow.service, allows_out);
                }
                allows_in = to.any_in;
                if (!allows_in) {
                    rules_in.apply(hdr, to.policy, from.policy, flow.from_v4, flow.from_v6, flow.protocol,
                                   flow.service, allows_in);
                }
                flow.unknown = drop_reason_t.none;
                if (!allows_out) {
                    flow.unknown = drop_reason_t.group_denied_out;
                } else if (!allows_in) {
                    flow.unknown = drop_reason_t.group_denied_in;
                }
            }

            if (flow.is_message) {
                if (flow.unknown != drop_reason_t.none) {
                    drop(meta, flow.unknown);
                }
            } else if (meta.fragment != fragment_t.later) {
                groups_track.apply(hdr, meta, from, to, flow);

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
                    if (!(flow.from_opened && flow.opens)) {
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
                        allows_out = opener.any_out;
                        if (!allows_out) {
                            rules_out.apply(hdr, opener.policy, target.policy,
                                            flow.from_opened ? flow.to_v4 : flow.from_v4,
                                            flow.from_opened ? flow.to_v6 : flow.from_v6,
                                            flow.protocol, service, allows_out);
                        }
                        allows_in = target.any_in;
                        if (!allows_in) {
                            rules_in.apply(hdr, target.policy, opener.policy,
                                           flow.from_opened ? flow.from_v4 : flow.to_v4,
                                           flow.from_opened ? flow.from_v6 : flow.to_v6,
                                           flow.protocol, service, allows_in);
                        }
                    }
                    if (!allows_out || !allows_in) {
                        drop(meta, drop_reason_t.group_flow_ended);
                    }
                }
            }
            if (meta.fragment != fragment_t.whole) {
                groups_fragment.apply(hdr, meta, flow);
            }
        }
    }
}

#endif
