// SPDX-License-Identifier: Apache-2.0
//
// What is the key of the packet's flow? It is the same for both directions: the lower side is first.

#ifndef GATEWAY_GROUPS_KEY_P4
#define GATEWAY_GROUPS_KEY_P4

#include "groups_flow.p4"

/// In the place of the protocol: an echo for which the higher side asks. So the requests of both
/// sides are two flows, although they can have one identifier. 255 is reserved: no protocol has it.
const bit<8> ECHO_OF_HIGH_SIDE = 255;

control groups_key_step(in headers_t hdr, inout group_flow_t flow) {
    bool is_self;   // both sides are one VM

    apply {
        if (hdr.inner_ipv4.isValid()) {
            is_self = flow.from_vni == flow.to_vni && flow.from_v4 == flow.to_v4;
            flow.from_is_low = flow.from_vni < flow.to_vni
                || flow.from_vni == flow.to_vni
                    && (flow.from_v4 < flow.to_v4
                        || flow.from_v4 == flow.to_v4 && flow.from_port <= flow.to_port);
        } else {
            is_self = flow.from_vni == flow.to_vni && flow.from_v6 == flow.to_v6;
            flow.from_is_low = flow.from_vni < flow.to_vni
                || flow.from_vni == flow.to_vni
                    && (flow.from_v6 < flow.to_v6
                        || flow.from_v6 == flow.to_v6 && flow.from_port <= flow.to_port);
        }
        flow.low_vni = flow.from_is_low ? flow.from_vni : flow.to_vni;
        flow.high_vni = flow.from_is_low ? flow.to_vni : flow.from_vni;
        flow.low_v4 = flow.from_is_low ? flow.from_v4 : flow.to_v4;
        flow.high_v4 = flow.from_is_low ? flow.to_v4 : flow.from_v4;
        flow.low_v6 = flow.from_is_low ? flow.from_v6 : flow.to_v6;
        flow.high_v6 = flow.from_is_low ? flow.to_v6 : flow.from_v6;
        flow.low_port = flow.from_is_low ? flow.from_port : flow.to_port;
        flow.high_port = flow.from_is_low ? flow.to_port : flow.from_port;
        flow.key_protocol = flow.protocol;
        if (flow.is_echo && flow.from_asks != flow.from_is_low && !is_self) {
            flow.key_protocol = ECHO_OF_HIGH_SIDE;
        }
    }
}

#endif
