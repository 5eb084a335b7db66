// SPDX-License-Identifier: Apache-2.0
//
// Which rules apply to a side of the flow? A VM's groups have one number for all their rules, its
// policy. So a VM has one entry, in however many groups it is, and a flow can note by which rules it
// began.

#ifndef GATEWAY_GROUPS_MEMBER_P4
#define GATEWAY_GROUPS_MEMBER_P4

#include "groups_flow.p4"

control groups_member_step(in headers_t hdr, in bool is_vm, in vni_t vni, in ipv4_t address_v4,
                           in ipv6_t address_v6, inout group_member_t member) {
    /// A VM with groups. `any_out` and `any_in`: its rules permit all that it sends, or all that is
    /// sent to it. `keeps`: its flows outlive a change of its rules. `picks_up`: a TCP connection may
    /// go on whose first packet the gateway has not seen. `vpc` may have `max_flows`.
    action in_groups(policy_t policy, bit<1> any_out, bit<1> any_in, bit<1> keeps, bit<1> picks_up,
                     vpc_t vpc, bit<32> max_flows) {
        member.policy = policy;
        member.any_out = (bool) any_out;
        member.any_in = (bool) any_in;
        member.keeps = (bool) keeps;
        member.picks_up = (bool) picks_up;
        member.vpc = vpc;
        member.max_flows = max_flows;
    }

    table v4 {
        key = {
            vni:        exact @name("vni");
            address_v4: exact @name("vm") @format(IPV4_ADDRESS);
        }
        actions = { in_groups; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 1048576;
    }

    table v6 {
        key = {
            vni:        exact @name("vni");
            address_v6: exact @name("vm") @format(IPV6_ADDRESS);
        }
        actions = { in_groups; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 1048576;
    }

    apply {
        // Without groups a VM is not restricted, and asks nothing of the other side.
        member.policy = 0;
        member.any_out = true;
        member.any_in = true;
        member.keeps = true;
        member.picks_up = true;
        member.vpc = 0;
        member.max_flows = 0;
        if (is_vm) {
            if (hdr.inner_ipv4.isValid()) {
                v4.apply();
            } else {
                v6.apply();
            }
        }
    }
}

#endif
