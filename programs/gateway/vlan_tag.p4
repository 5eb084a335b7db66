// SPDX-License-Identifier: Apache-2.0
//
// Does the sent frame have a VLAN tag? The next hop decides. The tag of a received frame is not that
// of the sent one.

#ifndef GATEWAY_VLAN_TAG_P4
#define GATEWAY_VLAN_TAG_P4

#include "metadata.p4"

control vlan_tag_step(inout headers_t hdr, in metadata_t meta) {
    apply {
        // A switch reads no tag.
        if (meta.vid == 0) {
            if (!meta.one_pass_only) {
                hdr.outer_vlan.setInvalid();
            }
        } else {
            hdr.outer_vlan.setValid();
            hdr.outer_vlan.priority = 0;
            hdr.outer_vlan.vid = meta.vid;
            hdr.outer_vlan.ether_type = ETHERTYPE_IPV6;
            if (hdr.outer_ipv4.isValid()) {
                hdr.outer_vlan.ether_type = ETHERTYPE_IPV4;
            }
            hdr.outer_ethernet.ether_type = ETHERTYPE_VLAN;
        }
    }
}

#endif
