// SPDX-License-Identifier: Apache-2.0
//
// Which flow does a packet belong to, and may it begin one? Finds both sides of the flow, as the
// packet goes: `from` is the side that it comes from. An ICMP error belongs to the flow of the packet
// that it quotes, which went the other way (RFC 5508, section 4).
//
// A side that is no VM (the Internet, a data centre, another region) has no groups, and no VPC of its
// own: it counts to the VPC of the VM. So both directions name it alike, whatever VNI the remote end
// point expects. Two VPCs can have the same addresses, because the VNI is part of a side.
//
// Nothing is dropped here, because packets between VMs without groups are not judged. `refusal` says
// why a packet with a flow cannot pass; `unknown` says why it cannot begin one.

#ifndef GATEWAY_GROUPS_FLOW_P4
#define GATEWAY_GROUPS_FLOW_P4

#include "metadata.p4"

/// Number of the rules that apply to a VM: of all its groups. It changes with the rules. 0: the VM is in
/// no group.
typedef bit<64> policy_t;

/// What the groups of a VM say about it.
struct group_member_t {
    policy_t policy;
    bool     any_out;    // all that the VM sends is permitted
    bool     any_in;     // all that is sent to the VM is permitted
    bool     keeps;      // flows outlive a change of rules
    bool     picks_up;   // a TCP connection may begin with any segment
    vpc_t    vpc;
    bit<32>  max_flows;  // most flows of the VPC
}

/// The flow of a packet.
struct group_flow_t {
    // groups_flow.
    bool          from_vm;
    bool          to_vm;
    vni_t         from_vni;
    vni_t         to_vni;
    ipv4_t        from_v4;
    ipv4_t        to_v4;
    ipv6_t        from_v6;
    ipv6_t        to_v6;
    bit<8>        protocol;
    bit<16>       from_port;   // ICMP: the identifier, at both sides
    bit<16>       to_port;
    bool          is_echo;
    bool          from_asks;   // an echo: `from` sends the requests
    bit<16>       service;     // what a rule names: the port of the target, or ICMP type and code
    bool          is_tcp;
    bool          is_error;    // an ICMP error about a packet of the flow
    bool          is_message;  // an ICMP message without an answer: judged alone, no flow
    bool          opens;       // may begin a flow, if the rules permit it
    drop_reason_t refusal;     // none: the packet is well-formed
    drop_reason_t unknown;     // why the packet cannot begin a flow

    // groups_key: the key of the flow, the same for both directions.
    bool          from_is_low;
    vni_t         low_vni;
    vni_t         high_vni;
    ipv4_t        low_v4;
    ipv4_t        high_v4;
    ipv6_t        low_v6;
    ipv6_t        high_v6;
    bit<16>       low_port;
    bit<16>       high_port;
    bit<8>        key_protocol;

    // groups: the rules permit the flow.
    bool          is_permitted;

    // groups_track: the side that began the flow, and the rules by which it did.
    bool          is_known;
    bool          from_opened;
    policy_t      opener_then;
    policy_t      target_then;
}

control groups_flow_step(in headers_t hdr, in metadata_t meta, inout group_flow_t flow) {
    InternetChecksum() quoted_sum;
    bool   has_ports;
    bit<8> echo_request;
    bit<8> echo_reply;
    bit<8> type;

    apply {
        // Which sides are VMs? A remote could send a VM's address as its own, so its packets have no
        // groups, whatever their source.
        flow.from_vm = !meta.from_internet && meta.sender != sender_t.remote;
        flow.to_vm = meta.from_internet || meta.scope == scope_t.local || meta.scope == scope_t.peer;
        flow.from_vni = flow.from_vm ? hdr.vxlan.vni : meta.to_vni;
        flow.to_vni = flow.to_vm ? meta.to_vni : hdr.vxlan.vni;

        flow.from_v4 = hdr.inner_ipv4.source;
        flow.to_v4 = hdr.inner_ipv4.destination;
        flow.from_v6 = hdr.inner_ipv6.source;
        flow.to_v6 = hdr.inner_ipv6.destination;
        flow.protocol = meta.protocol;
        flow.from_port = meta.l4_source;
        flow.to_port = meta.l4_destination;
        flow.service = meta.l4_destination;
        flow.is_tcp = meta.protocol == PROTOCOL_TCP;
        flow.is_echo = false;
        flow.from_asks = false;
        flow.is_error = false;
        flow.is_message = false;
        flow.opens = true;
        flow.refusal = drop_reason_t.none;
        flow.unknown = drop_reason_t.none;
        has_ports = meta.protocol == PROTOCOL_TCP || meta.protocol == PROTOCOL_UDP
            || meta.protocol == PROTOCOL_SCTP || meta.protocol == PROTOCOL_UDPLITE
            || meta.protocol == PROTOCOL_DCCP;

        if (meta.fragment != fragment_t.whole && !meta.has_datagram) {
            flow.refusal = drop_reason_t.fragment_unknown;
        } else if (has_ports) {
            if (flow.from_port == 0 || flow.to_port == 0) {
                flow.refusal = drop_reason_t.group_port_0;
            }
            if (flow.is_tcp) {
                if (hdr.l4_rest.isValid()) {
                    flow.opens = (hdr.l4_rest.flags & (TCP_SYN | TCP_ACK | TCP_RST | TCP_FIN)) == TCP_SYN;
                    flow.unknown = drop_reason_t.tcp_without_syn;
                } else if (meta.fragment != fragment_t.known) {
                    flow.refusal = drop_reason_t.group_headers;
                }
            }
        } else if (meta.protocol == PROTOCOL_ICMP && hdr.inner_ipv4.isValid()
                   || meta.protocol == PROTOCOL_ICMPV6 && hdr.inner_ipv6.isValid()) {
            echo_request = ICMP_ECHO_REQUEST;
            echo_reply = ICMP_ECHO_REPLY;
            if (hdr.inner_ipv6.isValid()) {
                echo_request = ICMPV6_ECHO_REQUEST;
                echo_reply = ICMPV6_ECHO_REPLY;
            }
            flow.service = meta.l4_source[7:0] ++ meta.l4_destination[7:0];
            type = meta.l4_source[7:0];
            flow.from_port = hdr.l4_icmp.identifier;
            if (meta.fragment == fragment_t.known) {
                flow.from_port = meta.identifier;
            }
            flow.to_port = flow.from_port;
            if (!hdr.l4_icmp.isValid() && meta.fragment != fragment_t.known) {
                flow.refusal = drop_reason_t.group_headers;
            } else if (type == echo_request) {
                flow.is_echo = true;
                flow.from_asks = true;
            } else if (type == echo_reply) {
                flow.is_echo = true;
                flow.opens = false;
                flow.unknown = drop_reason_t.group_unasked;
            } else if (hdr.inner_ipv6.isValid() && type <= ICMPV6_PARAMETER_PROBLEM
                       || hdr.inner_ipv4.isValid()
                           && (type == ICMP_UNREACHABLE
                               || type >= ICMP_TIME_EXCEEDED && type <= ICMP_PARAMETER_PROBLEM)) {
                // The quoted header has to be right (RFC 5508, section 4, REQ-3), and of a packet that
                // the receiver has sent; the payload is not there.
                flow.is_error = true;
                flow.opens = false;
                flow.unknown = drop_reason_t.group_error;
                if (hdr.quoted_ipv4.isValid()) {
                    quoted_sum.add({ hdr.quoted_ipv4.version, hdr.quoted_ipv4.ihl, hdr.quoted_ipv4.dscp,
                                     hdr.quoted_ipv4.ecn, hdr.quoted_ipv4.total_length,
                                     hdr.quoted_ipv4.identification, hdr.quoted_ipv4.reserved,
                                     hdr.quoted_ipv4.dont_fragment, hdr.quoted_ipv4.more_fragments,
                                     hdr.quoted_ipv4.fragment_offset, hdr.quoted_ipv4.ttl,
                                     hdr.quoted_ipv4.protocol, hdr.quoted_ipv4.checksum,
                                     hdr.quoted_ipv4.source, hdr.quoted_ipv4.destination });
                    flow.protocol = hdr.quoted_ipv4.protocol;
                    flow.from_v4 = hdr.quoted_ipv4.destination;
                    if (hdr.quoted_ipv4.version != 4 || quoted_sum.get() != 0
                        || hdr.quoted_ipv4.source != hdr.inner_ipv4.destination) {
                        flow.refusal = drop_reason_t.group_error;
                    }
                } else {
                    flow.protocol = hdr.quoted_ipv6.next_header;
                    flow.from_v6 = hdr.quoted_ipv6.destination;
                    if (hdr.quoted_ipv6.version != 6 || hdr.quoted_ipv6.source != hdr.inner_ipv6.destination) {
                        flow.refusal = drop_reason_t.group_error;
                    }
                }
                if (hdr.quoted_l4.isValid()) {
                    flow.from_port = hdr.quoted_l4.destination;
                    flow.to_port = hdr.quoted_l4.source;
                } else if (hdr.quoted_echo.isValid()) {
                    flow.is_echo = true;
                    flow.from_asks = hdr.quoted_echo.type == echo_reply;
                    flow.from_port = hdr.quoted_echo.identifier;
                    flow.to_port = hdr.quoted_echo.identifier;
                    if (hdr.quoted_echo.type != echo_request && hdr.quoted_echo.type != echo_reply) {
                        flow.refusal = drop_reason_t.group_error;
                    }
                } else if (flow.protocol == PROTOCOL_ESP || flow.protocol == PROTOCOL_GRE
                           || flow.protocol == PROTOCOL_IPV4 || flow.protocol == PROTOCOL_IPV6) {
                    // Tunnels have no ports, and need packet too big more than others (RFC 4890).
                    flow.from_port = 0;
                    flow.to_port = 0;
                } else {
                    flow.refusal = drop_reason_t.group_error;
                }
            } else {
                flow.is_message = true;
            }
        }
        // The first fragment has begun the flow.
        if (meta.fragment == fragment_t.known && !flow.is_message) {
            flow.opens = false;
            flow.unknown = drop_reason_t.fragment_unknown;
        }
    }
}

#endif
