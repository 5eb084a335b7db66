// SPDX-License-Identifier: Apache-2.0
//
// Does the gateway tell a VM its MAC address? Usually the vSwitch of the server answers ARP (RFC 826)
// and neighbour solicitations (RFC 4861), and those that arrive here are dropped. A VPC can ask the
// gateway to answer for its own addresses in the subnets. `neighbour_answer` makes the answer.
//
// All packets without this mark pay one test, because `inner_checks` sets it where packets were
// dropped anyway.

#ifndef GATEWAY_NEIGHBOUR_P4
#define GATEWAY_NEIGHBOUR_P4

#include "metadata.p4"
#include "verdicts.p4"

control neighbour_step(inout headers_t hdr, inout metadata_t meta) {
    action answer_request() {
        meta.punt_reason = punt_reason_t.neighbour;
        send_to_port(CPU);   // from a switch, which has no second pass
        order_icmp(hdr, meta, icmp_cause_t.neighbour, 0);
    }

    /// The VPCs in which the gateway answers.
    table neighbour {
        key = { hdr.vxlan.vni: exact @name("vni"); }
        actions = { answer_request; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 1048576;
    }

    apply {
        if (meta.asks_neighbour) {
            if (meta.sender == sender_t.server) {
                neighbour.apply();
            }
            if (hdr.inner_ipv6.isValid()) {
                drop(meta, drop_reason_t.inner_address);
            }
            drop(meta, drop_reason_t.inner_not_ip);
        }
    }
}

#endif
