// SPDX-License-Identifier: Apache-2.0
//
// Replaces address and port of the local side, and corrects the checksums by their difference (RFC
// 1624). The payload is not read, so a wrong checksum stays wrong.

#ifndef GATEWAY_NAT_TRANSLATE_P4
#define GATEWAY_NAT_TRANSLATE_P4

#include "metadata.p4"
#include "nat_flow.p4"

control nat_translate_step(inout headers_t hdr, inout metadata_t meta, in nat_flow_t nat) {
    InternetChecksum() ip_sum;
    InternetChecksum() sum;
    InternetChecksum() id_sum;
    ipv4_t  old_address;
    bit<16> new_checksum;

    apply {
        old_address = nat.is_outbound == 1 ? hdr.inner_ipv4.source : hdr.inner_ipv4.destination;
        ip_sum.subtract({ hdr.inner_ipv4.checksum, old_address });
        ip_sum.add({ nat.new_address });
        hdr.inner_ipv4.checksum = ip_sum.get();
        if (nat.is_outbound == 1) {
            hdr.inner_ipv4.source = nat.new_address;
        } else {
            hdr.inner_ipv4.destination = nat.new_address;
        }

        if (hdr.l4_icmp.isValid()) {
            // An echo; for an elastic address, also others, whose word here is unchanged. ICMP has no
            // pseudo-header.
            sum.subtract({ hdr.l4_icmp.checksum, nat.local_port });
            sum.add({ nat.new_port });
            hdr.l4_icmp.checksum = sum.get();
            hdr.l4_icmp.identifier = nat.new_port;
        } else if (hdr.l4.isValid()) {
            if (nat.protocol == PROTOCOL_TCP) {
                sum.subtract({ hdr.l4_rest.checksum, old_address, nat.local_port });
                sum.add({ nat.new_address, nat.new_port });
                hdr.l4_rest.checksum = sum.get();
            } else if (nat.protocol != PROTOCOL_SCTP) {   // it has no pseudo-header (RFC 9260)
                // RFC 768, RFC 3828, section 3.1: a sum of 0 is sent as ones. In UDP, a checksum of
                // 0 means that there is none; in DCCP, it is a sum (RFC 4340, section 9.1).
                sum.subtract({ hdr.l4.checksum, old_address, nat.local_port });
                sum.add({ nat.new_address, nat.new_port });
                new_checksum = sum.get();
                if (new_checksum == 0) {
                    new_checksum = 0xffff;
                }
                if (hdr.l4.checksum != 0 || nat.protocol == PROTOCOL_DCCP) {
                    hdr.l4.checksum = new_checksum;
                }
            }
            if (nat.is_outbound == 1) {
                hdr.l4.source = nat.new_port;
                meta.l4_source = nat.new_port;
            } else {
                hdr.l4.destination = nat.new_port;
                meta.l4_destination = nat.new_port;
            }
        }

        if (meta.fragment != fragment_t.whole) {
            // Where several VMs have one address, a datagram needs an identification that no other
            // datagram of this address has meanwhile (RFC 7857, section 10).
            if (nat.is_outbound == 1 && nat.kind != nat_kind_t.elastic) {
                id_sum.subtract({ hdr.inner_ipv4.checksum, hdr.inner_ipv4.identification });
                id_sum.add({ meta.sent_identification });
                hdr.inner_ipv4.checksum = id_sum.get();
                hdr.inner_ipv4.identification = meta.sent_identification;
            }
            // A later fragment has no layer 4 to change, but later steps see its ports.
            if (meta.fragment == fragment_t.known) {
                if (nat.protocol == PROTOCOL_ICMP) {
                    meta.identifier = nat.new_port;
                } else if (nat.is_outbound == 1) {
                    meta.l4_source = nat.new_port;
                } else {
                    meta.l4_destination = nat.new_port;
                }
            }
        }
    }
}

#endif
