// SPDX-License-Identifier: Apache-2.0
//
// Does a VPC limit the segments of its TCP connections? Each end of a connection says in its first
// packet how long the segments are that it takes (the MSS option, RFC 9293, section 3.7.1). A limit
// makes connections fit paths whose MTU an end cannot find out, because a firewall drops ICMP.
//
// Packets with SYN, of VPCs with a limit, enter the main block a second time with their final
// headers, and there `tcp_mss_lower_step` changes the option. All other packets pay one test. SYN behind IPv4
// options or IPv6 extension headers is left alone.

#ifndef GATEWAY_TCP_MSS_P4
#define GATEWAY_TCP_MSS_P4

#include "metadata.p4"
#include "verdicts.p4"

/// Packets whose MSS was lowered.
Counter<bit<64>, bit<1>>(1, PNA_CounterType_t.PACKETS) tcp_mss_lowered;

/// No limit: an MSS is never larger.
const bit<16> NO_LIMIT = 0xffff;

control tcp_mss_step(inout headers_t hdr, inout metadata_t meta) {
    bit<16> v4 = NO_LIMIT;   // over IPv4, and over IPv6
    bit<16> v6 = NO_LIMIT;
    bit<16> peer_v4 = NO_LIMIT;
    bit<16> peer_v6 = NO_LIMIT;

    /// The largest segments, in bytes, over both versions of IP.
    action limit_vpc(bit<16> mss_v4, bit<16> mss_v6) {
        v4 = mss_v4;
        v6 = mss_v6;
    }

    action limit_peer(bit<16> mss_v4, bit<16> mss_v6) {
        peer_v4 = mss_v4;
        peer_v6 = mss_v6;
    }

    /// Limits of VPCs, for packets that come from the VPC.
    table tcp_mss_of_vpc {
        key = { meta.vpc: exact @name("vpc"); }
        actions = { limit_vpc; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 1048576;
    }

    /// The same limits, for packets from peers.
    table tcp_mss_of_peer {
        key = { meta.to_vni: exact @name("vni"); }
        actions = { limit_peer; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 1048576;
    }

    /// Sends the packet through the main block again, with its hash, which selects the path. A switch
    /// has no second pass and sends the packet with its MSS to the port of the next hop.
    action order_lower_mss(bit<16> limit) {
        hdr.icmp_task.setValid();
        hdr.icmp_task.cause = icmp_cause_t.tcp_mss;
        hdr.icmp_task.protocol = 0;
        hdr.icmp_task.mtu = limit;
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
            tcp_mss_of_vpc.apply();
            if (meta.scope == scope_t.peer) {
                tcp_mss_of_peer.apply();
            }
            v4 = peer_v4 < v4 ? peer_v4 : v4;
            v6 = peer_v6 < v6 ? peer_v6 : v6;
            if (hdr.inner_ipv6.isValid()) {
                v4 = v6;
            }
            if (v4 != NO_LIMIT) {
                order_lower_mss(v4);
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
        if (hdr.outer_vlan.isValid()) {
            sent = sent + 4;
        }
        truncate(sent);
        meta.flow_hash = hdr.icmp_task.tunnel[31:0];
        hdr.icmp_task.setInvalid();
    }
}

#endif
