// SPDX-License-Identifier: Apache-2.0
//
// Do the rules of both sides permit a flow that the opener began? They are those of now.

#ifndef GATEWAY_GROUPS_JUDGE_P4
#define GATEWAY_GROUPS_JUDGE_P4

#include "groups_flow.p4"
#include "groups_rules.p4"

/// What the rules of both sides say.
struct group_verdict_t {
    bool allows_out;   // those of the opener
    bool allows_in;    // those of the target
}

control groups_judge_step(in bool is_v4, in group_member_t opener, in group_member_t target,
                          in ipv4_t opener_v4, in ipv6_t opener_v6, in ipv4_t target_v4,
                          in ipv6_t target_v6, in bit<8> protocol, in bit<16> service,
                          inout group_verdict_t verdict) {
    groups_rules_step() rules_out;
    groups_rules_step() rules_in;

    apply {
        verdict.allows_out = opener.any_out;
        if (!opener.any_out) {
            rules_out.apply(is_v4, opener.policy, target.policy, target_v4, target_v6, protocol, service,
                            verdict.allows_out);
        }
        verdict.allows_in = target.any_in;
        if (!target.any_in) {
            rules_in.apply(is_v4, target.policy, opener.policy, opener_v4, opener_v6, protocol, service,
                           verdict.allows_in);
        }
    }
}

#endif
