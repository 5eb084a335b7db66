// SPDX-License-Identifier: Apache-2.0
//
// Which session does a packet to or from the Internet, or to a service, belong to? Finds the addresses and ports of
// both sides. An ICMP error belongs to the session of the packet that it quotes (RFC 5508, section
// 4). Drops what the NAT does not translate.
//
// "Local" is the VM, or the address that stands for it: a public one, or that of a service. "Remote" is
// the host in the Internet, or the client of a service. The packet is the inner one in both directions
// (`nat_arrival.p4`). Answers of backends in a VPC have a step of their own (`service_answer.p4`).

#ifndef GATEWAY_NAT_FLOW_P4
#define GATEWAY_NAT_FLOW_P4

#include "metadata.p4"
#include "nat_quote.p4"
#include "verdicts.p4"

/// The flow of a packet to or from the Internet, and who may use which ports.
struct nat_flow_t {
    // nat_flow.
    vpc_t   vpc;                // of the VM or the service; 0 for a packet from the Internet
    bit<1>  is_outbound;
    bit<1>  in_vpc;             // of a service, and not to or from the Internet
    bit<8>  protocol;
    ipv4_t  local;
    bit<16> local_port;         // or ICMP identifier
    ipv4_t  remote;
    bit<16> remote_port;        // 0 for ICMP
    bool    is_error;           // an ICMP error about a packet of the flow
    bool    opens;              // may begin a session, if its direction does

    // nat_source, classify; nat_forward makes `session` or `service` of `forward`.
    nat_kind_t kind;

    // service_port, nat_forward; of an answer service_backend: the service, and how it chooses.
    vpc_t   service_vpc;
    ipv4_t  service;
    bit<16> service_port;
    bit<32> max_connections;    // most connections to services of the VPC
    bit<32> slots;
    bool    by_client;

    // gateway: the VM is a backend of a service that has an address where the packet goes.
    bool    is_answer;

    // service_choice: the backend for a new connection, or why there is none.
    bool    is_chosen;
    ipv4_t  chosen;
    bit<16> chosen_port;
    drop_reason_t refusal;

    // nat_source: the VM's number in the pool of ports, and the addresses that it may use.
    bit<32> subscriber;
    ipv4_t  first_public;
    bit<32> first_number;
    bit<32> public_count;
    bit<32> max_blocks;

    // nat_session: whether the session is known; whether a packet belongs to a connection, and its backend.
    bool    is_known;
    bool    is_found;
    ipv4_t  backend;
    bit<16> backend_port;

    // nat_session, nat_forward, gateway; of an elastic address nat_source or classify, and nat_elastic:
    // the translation of the local side.
    ipv4_t  new_address;
    bit<16> new_port;
}

control nat_flow_step(in headers_t hdr, inout metadata_t meta, inout nat_flow_t nat) {
    nat_quote_step() quote;
    ipv4_t  source;
    ipv4_t  destination;
    bit<16> source_port;
    bit<16> destination_port;

    apply {
        if (meta.fragment != fragment_t.whole && !meta.has_datagram) {
            drop(meta, drop_reason_t.fragment_unknown);
        }
        nat.is_outbound = (bit<1>) (meta.nat == nat_t.outbound);
        nat.in_vpc = (bit<1>) (meta.nat == nat_t.to_service);
        nat.is_error = false;
        nat.opens = true;
        nat.protocol = hdr.inner_ipv4.protocol;
        source = hdr.inner_ipv4.source;
        destination = hdr.inner_ipv4.destination;
        source_port = 0;
        destination_port = 0;
        if (meta.fragment == fragment_t.known) {
            // The first fragment has begun the session, and has the ports.
            nat.opens = false;
            source_port = meta.l4_source;
            destination_port = meta.l4_destination;
            if (nat.protocol == PROTOCOL_ICMP) {
                if (meta.l4_source != (bit<16>) (nat.is_outbound == 1 ? ICMP_ECHO_REQUEST : ICMP_ECHO_REPLY)) {
                    drop(meta, drop_reason_t.nat_protocol);
                }
                source_port = nat.is_outbound == 1 ? meta.identifier : 16w0;
                destination_port = nat.is_outbound == 1 ? 16w0 : meta.identifier;
            } else if (nat.protocol != PROTOCOL_UDP && nat.protocol != PROTOCOL_TCP) {
                drop(meta, drop_reason_t.nat_protocol);
            }
        } else if (hdr.inner_ipv4.ihl == 5 && hdr.inner_ipv4.protocol == PROTOCOL_UDP) {
            if (!hdr.l4.isValid()) {
                drop(meta, drop_reason_t.inner_length);
            }
            source_port = hdr.l4.source;
            destination_port = hdr.l4.destination;
        } else if (hdr.inner_ipv4.ihl == 5 && hdr.inner_ipv4.protocol == PROTOCOL_TCP) {
            if (!hdr.l4_rest.isValid()) {
                drop(meta, drop_reason_t.inner_length);
            }
            source_port = hdr.l4.source;
            destination_port = hdr.l4.destination;
            nat.opens = nat.opens && (hdr.l4_rest.flags & (TCP_SYN | TCP_ACK | TCP_RST)) == TCP_SYN;
        } else if (hdr.l4_icmp.isValid()) {
            if (hdr.l4_icmp.type == ICMP_ECHO_REQUEST || hdr.l4_icmp.type == ICMP_ECHO_REPLY) {
                // The VM asks, and a host in the Internet answers. The identifier is the VM's port.
                if ((hdr.l4_icmp.type == ICMP_ECHO_REQUEST) != (nat.is_outbound == 1)) {
                    drop(meta, drop_reason_t.nat_protocol);
                }
                if (nat.is_outbound == 1) {
                    source_port = hdr.l4_icmp.identifier;
                } else {
                    destination_port = hdr.l4_icmp.identifier;
                }
            } else {
                // The quoted packet went the other way.
                nat.is_error = true;
                nat.opens = false;
                nat.protocol = hdr.quoted_ipv4.protocol;
                source = hdr.quoted_ipv4.destination;
                destination = hdr.quoted_ipv4.source;
                if (hdr.quoted_l4.isValid()) {
                    source_port = hdr.quoted_l4.destination;
                    destination_port = hdr.quoted_l4.source;
                } else if (hdr.quoted_echo.isValid()) {
                    if (nat.is_outbound == 1) {
                        source_port = hdr.quoted_echo.identifier;
                    } else {
                        destination_port = hdr.quoted_echo.identifier;
                    }
                } else if (hdr.quoted_ipv4.isValid()) {
                    drop(meta, drop_reason_t.nat_quote);
                } else {
                    drop(meta, drop_reason_t.nat_protocol);
                }
                quote.apply(hdr, meta);
                if (nat.is_outbound == 0 && hdr.inner_ipv4.destination != destination) {
                    drop(meta, drop_reason_t.nat_quote);
                }
            }
        } else {
            drop(meta, drop_reason_t.nat_protocol);
        }
        if (nat.is_outbound == 1) {
            nat.vpc = meta.vpc;
            nat.local = source;
            nat.local_port = source_port;
            nat.remote = destination;
            nat.remote_port = destination_port;
        } else {
            nat.vpc = 0;
            if (meta.nat == nat_t.to_service) {
                nat.vpc = meta.service_vpc;
            }
            nat.local = destination;
            nat.local_port = destination_port;
            nat.remote = source;
            nat.remote_port = source_port;
        }
    }
}

#endif
