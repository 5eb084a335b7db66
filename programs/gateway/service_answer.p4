// SPDX-License-Identifier: Apache-2.0
//
// Which connection could a packet from a VM with services be an answer of? Finds the side of the VM,
// and that of the client. An ICMP error is about a packet that the client sent. Nothing is
// dropped here, because a VM can have other connections by the same port: what belongs to no
// connection of a service goes on as it is.

#ifndef GATEWAY_SERVICE_ANSWER_P4
#define GATEWAY_SERVICE_ANSWER_P4

#include "metadata.p4"
#include "nat_flow.p4"

control service_answer_step(in headers_t hdr, in metadata_t meta, inout nat_flow_t nat, inout bool has_ports) {
    apply {
        has_ports = false;
        nat.is_error = false;
        if (hdr.inner_ipv4.isValid() && hdr.inner_ipv4.ihl == 5) {
            nat.protocol = meta.protocol;
            nat.local = hdr.inner_ipv4.source;
            nat.remote = hdr.inner_ipv4.destination;
            if (meta.protocol == PROTOCOL_TCP) {
                has_ports = hdr.l4_rest.isValid() || meta.fragment == fragment_t.known;
            } else if (meta.protocol == PROTOCOL_UDP) {
                has_ports = hdr.l4.isValid() || meta.fragment == fragment_t.known;
            }
            if (has_ports) {
                nat.local_port = meta.l4_source;
                nat.remote_port = meta.l4_destination;
            } else if (hdr.quoted_l4.isValid()) {
                has_ports = true;
                nat.is_error = true;
                nat.protocol = hdr.quoted_ipv4.protocol;
                nat.local = hdr.quoted_ipv4.destination;
                nat.remote = hdr.quoted_ipv4.source;
                nat.local_port = hdr.quoted_l4.destination;
                nat.remote_port = hdr.quoted_l4.source;
            }
        }
    }
}

#endif
