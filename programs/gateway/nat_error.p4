// SPDX-License-Identifier: Apache-2.0
//
// Translates an ICMP error: its own address, and the packet that it quotes, which went the other way
// (RFC 5508, sections 4.2 and 4.3). A router on the way keeps its address, so that traceroute shows
// it. The checksum of the quoted payload covers bytes that the quotation lacks; it is corrected
// where it is quoted.

#ifndef GATEWAY_NAT_ERROR_P4
#define GATEWAY_NAT_ERROR_P4

#include "metadata.p4"
#include "nat_flow.p4"

control nat_error_step(inout headers_t hdr, in nat_flow_t nat) {
    InternetChecksum() ip_sum;
    InternetChecksum() sum;
    InternetChecksum() quoted_sum;
    InternetChecksum() quoted_l4_sum;
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

        // The ICMP checksum covers the quotation: each changed word of it, its checksums too.
        sum.subtract({ hdr.l4_icmp.checksum, hdr.quoted_ipv4.checksum, nat.local, nat.local_port });
        quoted_sum.subtract({ hdr.quoted_ipv4.checksum, nat.local });
        quoted_sum.add({ nat.new_address });
        hdr.quoted_ipv4.checksum = quoted_sum.get();
        if (nat.is_outbound == 1) {
            hdr.quoted_ipv4.destination = nat.new_address;
        } else {
            hdr.quoted_ipv4.source = nat.new_address;
        }
        sum.add({ hdr.quoted_ipv4.checksum, nat.new_address, nat.new_port });
        if (hdr.quoted_echo.isValid()) {
            sum.subtract({ hdr.quoted_echo.checksum });
            quoted_l4_sum.subtract({ hdr.quoted_echo.checksum, nat.local_port });
            quoted_l4_sum.add({ nat.new_port });
            hdr.quoted_echo.checksum = quoted_l4_sum.get();
            sum.add({ hdr.quoted_echo.checksum });
            hdr.quoted_echo.identifier = nat.new_port;
        } else if (hdr.quoted_l4.isValid()) {
            if (nat.is_outbound == 1) {
                hdr.quoted_l4.destination = nat.new_port;
            } else {
                hdr.quoted_l4.source = nat.new_port;
            }
            if (nat.protocol == PROTOCOL_UDP && hdr.quoted_l4.checksum != 0) {
                sum.subtract({ hdr.quoted_l4.checksum });
                quoted_l4_sum.subtract({ hdr.quoted_l4.checksum, nat.local, nat.local_port });
                quoted_l4_sum.add({ nat.new_address, nat.new_port });
                new_checksum = quoted_l4_sum.get();
                if (new_checksum == 0) {
                    new_checksum = 0xffff;
                }
                hdr.quoted_l4.checksum = new_checksum;
                sum.add({ hdr.quoted_l4.checksum });
            }
        }
        hdr.l4_icmp.checksum = sum.get();
    }
}

#endif
