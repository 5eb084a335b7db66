// SPDX-License-Identifier: Apache-2.0
//
// Does a VPC limit the segments of its TCP connections? Each end of a connection says in its first
// packet how long the segments are that it takes (the MSS option, RFC 9293, section 3.7.1). A limit
// makes connections fit paths whose MTU an end cannot find out, because a firewall drops ICMP.
//
// The limit comes with entries that each packet has looked up anyway: with that of its own VPC
// (`set_vpc_with`), or with a route to a peer (`peer_limited`), which has the lower one of both VPCs.
//
// Packets with SYN, of VPCs with a limit, enter the main block a second time with their final
// headers, and there `tcp_mss_lower_step` changes the option. All other packets pay one test. SYN
// behind IPv4 options or IPv6 extension headers is left alone. A switch sends packets with SYN, of
// VPCs with a limit, to the CPU as it received them (`gateway.p4`).

#ifndef GATEWAY_TCP_MSS_P4
#define GATEWAY_TCP_MSS_P4

#include "metadata.p4"
#include "verdicts.p4"

/// Packets whose MSS was lowered.
Counter<bit<64>, bit<1>>(1, PNA_CounterType_t.PACKETS) tcp_mss_lowered;

control tcp_mss_step(inout headers_t hdr, inout metadata_t meta) {
    bit<16> limit;

    /// Sends the packet through the main block again, with its hash, which selects the path.
    action order_lower_mss(in bit<16> most) {
        hdr.icmp_task.setValid();
        hdr.icmp_task.cause = icmp_cause_t.tcp_mss;
        hdr.icmp_task.protocol = 0;
        hdr.icmp_task.mtu = most;
        hdr.icmp_task.sender = 0;
        hdr.icmp_task.fragment = 0;
        hdr.icmp_task.vpc = 0;
        hdr.icmp_task.vni = 0;
        hdr.icmp_task.dscp = 0;
        hdr.icmp_task.over_ipv6 = 0;
        hdr.icmp_task.reserved = 0;
        hdr.icmp_task.l4_type = 0;
        hdr.icmp_task.tunnel = (bit<128>) meta.flow_hash;
        recirculate();
        exit;
    }

    apply {
        if (meta.opens_tcp) {
            if (meta.limits_mss) {
                limit = meta.mss_v4;
                // A packet to the Internet is in no tunnel any more.
                if (hdr.inner_ipv6.isValid() || !hdr.vxlan.isValid() && hdr.outer_ipv6.isValid()) {
                    limit = meta.mss_v6;
                }
                order_lower_mss(limit);
            }
        }
    }
}

/// The second pass: lowers the MSS, if the packet has one that is larger. Then `underlay` sends the
/// packet.
control tcp_mss_lower_step(inout headers_t hdr, inout metadata_t meta) {
    InternetChecksum() update;
    bit<16> limit;
    bit<32> sent;   // length of the frame

    apply {
        limit = hdr.icmp_task.mtu;
        if (hdr.tcp_mss.isValid() && hdr.tcp_mss.value > limit) {
            // RFC 1624. Behind an odd number of bytes, the two bytes are in two words of the sum.
            update.subtract({ hdr.tcp.checksum });
            if (hdr.quote_1.isValid()) {
                update.subtract({ hdr.tcp_mss.value[7:0], hdr.tcp_mss.value[15:8] });
                update.add({ limit[7:0], limit[15:8] });
            } else {
                update.subtract({ hdr.tcp_mss.value });
                update.add({ limit });
            }
            hdr.tcp_mss.value = limit;
            hdr.tcp.checksum = update.get();
            tcp_mss_lowered.count(0);
        }
        // Bytes behind the outer packet are not sent.
        sent = 34 + (bit<32>) hdr.outer_udp.length;
        if (hdr.outer_ipv6.isValid()) {
            sent = sent + 20;
        }
        if (!hdr.vxlan.isValid()) {   // to the Internet
            sent = 14 + (bit<32>) hdr.outer_ipv4.total_length;
            if (hdr.outer_ipv6.isValid()) {
                sent = 54 + (bit<32>) hdr.outer_ipv6.payload_length;
            }
        }
        if (hdr.outer_vlan.isValid()) {
            sent = sent + 4;
        }
        truncate(sent);
        meta.flow_hash = hdr.icmp_task.tunnel[31:0];
        hdr.icmp_task.setInvalid();
    }
}

#endif
