// SPDX-License-Identifier: Apache-2.0
//
// Do the rules of one side permit a flow? Rules only permit: without one that matches, the flow is
// denied. A rule names the other side by a prefix or by a group; a group is the policies of all VMs
// that are in it. The rules of the side that begins the flow are asked for what it sends, those of the
// other side for what it gets.

#ifndef GATEWAY_GROUPS_RULES_P4
#define GATEWAY_GROUPS_RULES_P4

#include "groups_flow.p4"

control groups_rules_step(in bool is_v4, in policy_t policy, in policy_t peer, in ipv4_t peer_v4,
                          in ipv6_t peer_v6, in bit<8> protocol, in bit<16> service, inout bool allows) {
    action allow() {
        allows = true;
    }

    table v4 {
        key = {
            policy:   exact   @name("policy");
            peer:     ternary @name("peer");
            peer_v4:  ternary @name("address");
            protocol: ternary @name("protocol");
            service:  range   @name("service");
        }
        actions = { allow; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 262144;
    }

    table v6 {
        key = {
            policy:   exact   @name("policy");
            peer:     ternary @name("peer");
            peer_v6:  ternary @name("address");
            protocol: ternary @name("protocol");
            service:  range   @name("service");
        }
        actions = { allow; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 262144;
    }

    apply {
        allows = false;
        if (is_v4) {
            v4.apply();
        } else {
            v6.apply();
        }
    }
}

#endif
