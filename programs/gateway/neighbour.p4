// SPDX-License-Identifier: Apache-2.0
//
// Does the gateway tell a VM its MAC address? Usually the vSwitch of the server answers ARP (RFC 826)
// and neighbour solicitations (RFC 4861), and those that arrive here are dropped. A VPC can ask the
// gateway to answer for its own addresses in the subnets (`set_vpc_with`). `neighbour_answer` makes
// the answer. A switch sends the request to the CPU.
//
// All packets without this mark pay one test, because `inner_checks` sets it where packets were
// dropped anyway.

#ifndef GATEWAY_NEIGHBOUR_P4
#define GATEWAY_NEIGHBOUR_P4

#include "metadata.p4"
#include "verdicts.p4"

control neighbour_step(inout headers_t hdr, inout metadata_t meta) {
    apply {
        if (meta.asks_neighbour) {
            if (meta.sender == sender_t.server && meta.answers_neighbours) {
                if (meta.one_pass_only) {
                    to_cpu(meta, punt_reason_t.neighbour);
                }
                order_icmp(hdr, meta, icmp_cause_t.neighbour, 0);
            }
            if (hdr.inner_ipv6.isValid()) {
                drop(meta, drop_reason_t.inner_address);
            }
            drop(meta, drop_reason_t.inner_not_ip);
        }
    }
}

#endif
