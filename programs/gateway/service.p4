// SPDX-License-Identifier: Apache-2.0
//
// Steps of a packet to a service, and of an answer, within a VPC. The packet of the client gets the
// address of the backend before the incoming list and the security groups judge it, so these see the
// client and the backend. The answer gets the address of the service behind the security groups, which
// see the backend, and before the client's list, which sees the service.

#ifndef GATEWAY_SERVICE_P4
#define GATEWAY_SERVICE_P4

#include "metadata.p4"
#include "nat_flow.p4"
#include "nat_quote.p4"
#include "service_backend.p4"
#include "verdicts.p4"

/// Which way does the packet go? The gateway answers echo requests to a service itself: they have no
/// port, and their answer must not depend on one backend.
control service_direction_step(inout headers_t hdr, inout metadata_t meta, inout nat_flow_t nat) {
    apply {
        if (meta.scope == scope_t.service) {
            if (hdr.l4_icmp.isValid() && hdr.l4_icmp.type == ICMP_ECHO_REQUEST) {
                order_icmp(hdr, meta, icmp_cause_t.echo, 0);
            }
            if (hdr.inner_ipv6.isValid()) {
                drop(meta, drop_reason_t.service_port);
            }
            meta.nat = nat_t.to_service;
            nat.kind = nat_kind_t.service;
        } else {
            meta.nat = nat_t.answer;
            nat.kind = nat_kind_t.answer;
            nat.vpc = meta.vpc;
            nat.is_outbound = 1;
            nat.in_vpc = 1;
        }
    }
}

/// May the packet of a backend pass as an answer of its service? `sender` is that backend, and
/// `other_serves` says that its connection has another one, which serves.
control service_answer_check_step(in headers_t hdr, inout metadata_t meta, in nat_flow_t nat,
                                  in backend_t sender, in bool other_serves) {
    nat_quote_step() quote;

    apply {
        if (!sender.is_up || other_serves) {
            drop(meta, drop_reason_t.service_backend_down);
        }
        if (meta.fragment != fragment_t.whole && !meta.has_datagram) {
            drop(meta, drop_reason_t.fragment_unknown);
        }
        if (nat.is_error) {
            quote.apply(hdr, meta);
            if (nat.remote != hdr.inner_ipv4.destination) {
                drop(meta, drop_reason_t.nat_quote);
            }
        }
    }
}

/// Refuses a packet to a service without a backend for it. `nat.refusal` is the reason.
control service_refusal_step(inout headers_t hdr, inout metadata_t meta, in nat_flow_t nat) {
    apply {
        if (nat.refusal == drop_reason_t.service_no_backend) {
            drop_and_tell(hdr, meta, drop_reason_t.service_no_backend, icmp_cause_t.no_service, 0);
        } else if (nat.refusal != drop_reason_t.none) {
            drop(meta, nat.refusal);
        }
    }
}

/// Keeps the headers as they were sent, because an ICMP error about the packet quotes them.
control service_sent_step(inout headers_t hdr) {
    apply {
        hdr.sent_ipv4 = hdr.inner_ipv4;
        hdr.sent_l4 = hdr.l4;
        hdr.sent_l4_rest = hdr.l4_rest;
    }
}

#endif
