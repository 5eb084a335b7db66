// SPDX-License-Identifier: Apache-2.0
//
// Actions that end the processing of a packet: drop, or send to the CPU. Both record and count the
// reason; later steps are skipped.

#ifndef GATEWAY_VERDICTS_P4
#define GATEWAY_VERDICTS_P4

#include "metadata.p4"
#include "reasons.p4"

/// Dropped packets and bytes; the index is the drop reason.
Counter<bit<64>, bit<8>>(256, PNA_CounterType_t.PACKETS_AND_BYTES) drops;

/// Packets and bytes sent to the CPU; the index is the punt reason.
Counter<bit<64>, bit<8>>(256, PNA_CounterType_t.PACKETS_AND_BYTES) punts;

/// ICMP messages that the gateway sent; the index is the cause.
Counter<bit<64>, bit<8>>(16, PNA_CounterType_t.PACKETS_AND_BYTES) icmp_sent;

const PortId_t CPU = (PortId_t) (PortIdUint_t) (InterfaceIdUint_t) PNA_PORT_CPU;

/// Drops the packet immediately.
action drop(inout metadata_t meta, in drop_reason_t reason) {
    meta.drop_reason = reason;
    drops.count((bit<8>) reason);
    drop_packet();
    exit;
}

/// Sends the packet through the main block again, with the order for an ICMP message. The inner
/// headers must be as received; those of a service's packet are restored. `mtu` is the longest inner packet that passes, for the cause
/// too_big.
action order_icmp(inout headers_t hdr, inout metadata_t meta, in icmp_cause_t cause, in bit<16> mtu) {
    hdr.icmp_task.setValid();
    hdr.icmp_task.cause = cause;
    hdr.icmp_task.protocol = meta.protocol;
    hdr.icmp_task.mtu = mtu;
    hdr.icmp_task.sender = (bit<2>) meta.sender;
    hdr.icmp_task.fragment = (bit<2>) meta.fragment;
    hdr.icmp_task.vpc = meta.vpc;
    hdr.icmp_task.vni = hdr.vxlan.vni;
    hdr.icmp_task.dscp = meta.outer_dscp;
    hdr.icmp_task.over_ipv6 = (bit<1>) (meta.tunnel_v6 != 0);
    hdr.icmp_task.reserved = 0;
    hdr.icmp_task.l4_type = meta.l4_source[7:0];
    // One of the three: a header that is not valid has zeros, as has a new one. There is no condition,
    // so that a switch, which has no second pass, can leave the order out as a whole.
    hdr.icmp_task.tunnel = meta.tunnel_v6 | (ipv6_t) hdr.outer_ipv4.source | (ipv6_t) meta.tunnel_v4;
    if (!meta.one_pass_only && hdr.sent_ipv4.isValid()) {
        hdr.inner_ipv4 = hdr.sent_ipv4;
        hdr.l4 = hdr.sent_l4;
        hdr.l4_rest = hdr.sent_l4_rest;
    }
    hdr.outer_ethernet.setInvalid();
    hdr.outer_vlan.setInvalid();
    hdr.outer_ipv4.setInvalid();
    hdr.outer_ipv6.setInvalid();
    hdr.outer_udp.setInvalid();
    hdr.vxlan.setInvalid();
    recirculate();
    exit;
}

/// Drops the packet and tells its sender why: `icmp_error` makes an ICMP error of it. The drop is
/// counted here.
action drop_and_tell(inout headers_t hdr, inout metadata_t meta, in drop_reason_t reason,
                     in icmp_cause_t cause, in bit<16> mtu) {
    // A sender in the Internet is behind no tunnel.
    if (!meta.one_pass_only && meta.from_internet) {
        drop(meta, reason);
    }
    meta.drop_reason = reason;
    drops.count((bit<8>) reason);
    drop_packet();
    order_icmp(hdr, meta, cause, mtu);
}

/// Sends the unchanged packet to the CPU. Therefore, all steps that change headers follow the last
/// step that calls this action.
action to_cpu(inout metadata_t meta, in punt_reason_t reason) {
    meta.punt_reason = reason;
    punts.count((bit<8>) reason);
    send_to_port(CPU);
    exit;
}

#endif
