// SPDX-License-Identifier: Apache-2.0
//
// Which address and inner MAC does the remote tunnel end point have (of a data centre, or of the
// gateway of another region)? Many routes share few end points. Routes therefore refer to an end
// point by number: their entries stay small, and one write moves an end point. The devices of a
// site share an address, over which the underlay spreads flows.

#ifndef GATEWAY_REMOTE_P4
#define GATEWAY_REMOTE_P4

#include "metadata.p4"

control remote_step(inout headers_t hdr, inout metadata_t meta) {
    action at_v4(ipv4_t address, mac_t mac) {
        hdr.outer_ipv6.setInvalid();
        hdr.outer_ipv4.setValid();
        hdr.outer_ipv4.destination = address;
        meta.far_mac = mac;
    }

    action at_v6(ipv6_t address, mac_t mac) {
        meta.tunnel_v4 = hdr.outer_ipv4.source;
        hdr.outer_ipv4.setInvalid();
        hdr.outer_ipv6.setValid();
        hdr.outer_ipv6.destination = address;
        meta.far_mac = mac;
    }

    action unknown_remote() {
        drop(meta, drop_reason_t.unknown_remote);
    }

    table remote {
        key = { meta.remote: exact @name("remote"); }
        actions = { at_v4; at_v6; @defaultonly unknown_remote; }
        const default_action = unknown_remote();
        size = 65536;
    }

    apply {
        remote.apply();
    }
}

#endif
