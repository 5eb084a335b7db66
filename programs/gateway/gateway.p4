// SPDX-License-Identifier: Apache-2.0
//
// The gateway connects the virtual networks (VPCs) of a cloud's tenants with each other, with the
// tenants' data centres, with other regions and with the Internet. The server of a VM sends a packet
// here in VXLAN. The gateway determines the peer's location and forwards the packet in VXLAN, or to
// the Internet as it is, over IPv4 with a public address.
//
// This file lists the steps in order; each step is a file. README.md describes them, and TABLES.md
// describes the tables for authors of a control plane.

#include <core.p4>
#include <pna.p4>
#include <terrace.p4>

#include "headers.p4"
#include "reasons.p4"
#include "metadata.p4"
#include "verdicts.p4"
#include "parser.p4"
#include "malformed.p4"
#include "classify.p4"
#include "vxlan_checks.p4"
#include "inner_checks.p4"
#include "tenant.p4"
#include "neighbour.p4"
#include "fragments.p4"
#include "policy_routing.p4"
#include "routing.p4"
#include "acl.p4"
#include "vm_nc.p4"
#include "remote.p4"
#include "inner_link.p4"
#include "flow_hash.p4"
#include "internet_v6.p4"
#include "internet_arrival.p4"
#include "internet_departure.p4"
#include "npt.p4"
#include "nat_source.p4"
#include "nat_arrival.p4"
#include "nat_flow.p4"
#include "internet_source.p4"
#include "nat_forward.p4"
#include "nat_session.p4"
#include "nat_elastic.p4"
#include "nat_translate.p4"
#include "nat_error.p4"
#include "nat_departure.p4"
#include "nat64_source.p4"
#include "nat64_flow.p4"
#include "nat64_error.p4"
#include "nat64_arrival.p4"
#include "nat64_departure.p4"
#include "service_answer.p4"
#include "service_backend.p4"
#include "service_port.p4"
#include "service_choice.p4"
#include "service.p4"
#include "groups.p4"
#include "underlay.p4"
#include "inner_rewrite.p4"
#include "encap.p4"
#include "vlan_tag.p4"
#include "tcp_mss.p4"
#include "icmp_source.p4"
#include "icmp_never.p4"
#include "icmp_limit.p4"
#include "icmp_error.p4"
#include "icmp_echo.p4"
#include "neighbour_answer.p4"
#include "icmp_return.p4"
#include "deparser.p4"

control gateway(inout headers_t hdr,
                inout metadata_t meta,
                in pna_main_input_metadata_t istd,
                inout pna_main_output_metadata_t ostd) {
    malformed_step()                         malformed;
    classify_step()                          classify;
    vxlan_checks_step()                      vxlan_checks;
    inner_checks_step()                      inner_checks;
    tenant_step()                            tenancy;
    neighbour_step()                         neighbour;
    fragments_step()                         fragments;
    policy_routing_step()                    policy_routing;
    routing_step()                           routing;
    acl_step(drop_reason_t.acl_denied_out, drop_reason_t.acl_rejected_out) acl_out;
    acl_step(drop_reason_t.acl_denied_in, drop_reason_t.acl_rejected_in)   acl_in;
    vm_nc_step()                             vm_nc;
    remote_step()                            remote_end;
    inner_link_step()                        inner_link;
    flow_hash_step()                         flow_hash;
    internet_v6_step()                       internet_v6;
    internet_arrival_step()                  internet_arrival;
    internet_path_step()                     internet_path;
    internet_departure_step()                internet_departure;
    npt_step()                               npt;
    nat_source_step()                        nat_source;
    nat_arrival_step()                       nat_arrival;
    nat_flow_step()                          nat_flow;
    nat_forward_step()                       nat_forward;
    nat_session_step()                       nat_session;
    internet_source_step()                   internet_source;
    nat_elastic_step()                       nat_elastic;
    nat_path_step()                          nat_path;
    nat_translate_step()                     nat_translate;
    nat_error_step()                         nat_error;
    nat_departure_step()                     nat_departure;
    nat64_flow_step()                        nat64_flow;
    nat64_arrival_step()                     nat64_arrival;
    nat64_path_step()                        nat64_path;
    nat64_departure_step()                   nat64_departure;
    service_answer_step()                    service_answer;
    service_backend_step()                   service_backend;
    service_direction_step()                 service_direction;
    service_port_step()                      service_port;
    service_choice_step()                    service_choice;
    service_refusal_step()                   service_refusal;
    service_answer_check_step()              service_answer_check;
    service_sent_step()                      service_sent;
    groups_step()                            groups;
    underlay_step()                          underlay;
    inner_rewrite_step()                     inner_rewrite;
    encap_step()                             encap;
    vlan_tag_step()                          vlan_tag;
    icmp_source_step()                       icmp_source;
    icmp_never_step()                        icmp_never;
    icmp_limit_step()                        icmp_limit;
    icmp_error_step()                        icmp_error;
    icmp_echo_step()                         icmp_echo;
    neighbour_answer_step()                  neighbour_answer;
    icmp_return_step()                       icmp_return;
    neighbour_mac_step()                     neighbour_mac;
    tcp_mss_step()                           tcp_mss;
    tcp_mss_lower_step()                     tcp_mss_lower;

    gateway_address_t own;           // of the gateway in the subnet, for an ICMP error
    bit<16>           inner_bytes;   // of an ICMP message with its IP header
    nat_flow_t        nat;           // of a packet to or from the Internet or a service
    internet_v6_t     internet;      // of one to or from the Internet over IPv6
    bool              has_ports;     // can be the answer of a backend
    backend_t         sender;        // the backend that sent the packet
    backend_t         backend;       // the backend of the packet's connection
    bool              judged_late;   // the incoming list sees the packet with its final addresses

    // A step that drops the packet or sends it to the CPU ends the processing (verdicts.p4).
    apply {
        if (istd.pass != FIRST_PASS) {
            if (hdr.icmp_task.cause == icmp_cause_t.tcp_mss) {
                tcp_mss_lower.apply(hdr, meta);
            } else {
                // What does the sender of a packet hear?
                if (hdr.nd.isValid()) {
                    hdr.icmp_task.cause = icmp_cause_t.neighbour;   // to the address that answers echo, too
                }
                if (hdr.icmp_task.cause != icmp_cause_t.echo) {
                    icmp_source.apply(hdr, meta, own);
                }
                if (hdr.icmp_task.cause == icmp_cause_t.neighbour) {
                    // Before the limit, because a VM's requests for other addresses do not count there.
                    neighbour_answer.apply(hdr, meta, istd, own, inner_bytes);
                } else if (hdr.icmp_task.cause != icmp_cause_t.echo) {
                    icmp_never.apply(hdr, meta, own);
                }
                icmp_limit.apply(hdr, meta, istd);
                if (hdr.icmp_task.cause == icmp_cause_t.echo) {
                    icmp_echo.apply(hdr, meta, istd, inner_bytes);
                } else if (hdr.icmp_task.cause != icmp_cause_t.neighbour) {
                    icmp_error.apply(hdr, meta, own, inner_bytes);
                }
                icmp_return.apply(hdr, meta, inner_bytes);
                flow_hash.apply(hdr, meta);
            }
        } else {
            // Is it a valid packet from a tenant?
            malformed.apply(hdr, meta, istd);
            if (hdr.vxlan.isValid()) {
                vxlan_checks.apply(hdr, meta);
                inner_checks.apply(hdr, meta);
            }
            classify.apply(hdr, meta, istd, nat, internet);
            judged_late = false;

            // Which tenant sent it?
            if (meta.one_pass_only || !meta.from_internet) {
                tenancy.apply(hdr, meta);
                neighbour.apply(hdr, meta);
            } else if (hdr.outer_ipv4.isValid()) {
                nat_arrival.apply(hdr, meta);
            } else {
                internet_arrival.apply(hdr, meta, istd);
            }

            // Which ports has a fragment? Before the first step that reads ports.
            if (!meta.one_pass_only && meta.fragment != fragment_t.whole) {
                fragments.apply(hdr, meta, nat);
            }

            if (meta.one_pass_only || !meta.from_internet) {
                // Where does it go, and is it permitted?
                policy_routing.apply(hdr, meta);
                flow_hash.apply(hdr, meta);   // here, because it then depends on no table on a chip
                routing.apply(hdr, meta);

                // A switch knows no connections. Before the lists, which see other addresses then.
                if (meta.one_pass_only && meta.has_services) {
                    to_cpu(meta, punt_reason_t.services);
                }

                // Is the packet for a service, or from a port that is the backend of one?
                nat.is_answer = false;
                if (!meta.one_pass_only && meta.has_services) {
                    judged_late = meta.scope == scope_t.service;
                    if (!judged_late) {
                        service_answer.apply(hdr, meta, nat, has_ports);
                        if (has_ports) {
                            service_backend.apply(meta.vpc, nat.protocol, nat.local, nat.local_port, sender);
                            nat.service = meta.scope == scope_t.internet ? sender.public : sender.address;
                            nat.service_port = sender.port;
                            nat.service_vpc = meta.vpc;
                            nat.is_answer = sender.is_known && nat.service != 0;
                            judged_late = nat.is_answer && meta.scope != scope_t.internet;
                        }
                    }
                }

                // Packets from a remote to VMs of the VPC do not leave the VPC.
                if (meta.sender != sender_t.remote
                    || meta.scope != scope_t.local && (meta.one_pass_only || meta.scope != scope_t.service)) {
                    acl_out.apply(hdr, meta, meta.vpc);
                }
                if (meta.one_pass_only || !judged_late) {
                    acl_in.apply(hdr, meta, meta.in_list);
                }

                // A switch reads no options of TCP.
                if (meta.one_pass_only && meta.opens_tcp && meta.limits_mss) {
                    to_cpu(meta, punt_reason_t.tcp_mss);
                }

                // A switch tracks no flows.
                if (meta.one_pass_only && meta.has_groups) {
                    to_cpu(meta, punt_reason_t.security_groups);
                }

                // Which tunnel end point serves the destination?
                if (meta.scope == scope_t.idc || meta.scope == scope_t.cross_region) {
                    remote_end.apply(hdr, meta);
                } else if (meta.scope != scope_t.internet && (meta.one_pass_only || meta.scope != scope_t.service)) {
                    vm_nc.apply(hdr, meta);
                }

                // Was the frame addressed to the gateway, and does it go to the Internet?
                inner_link.apply(hdr, meta);
                if (meta.to_router_address) {
                    drop(meta, drop_reason_t.not_for_gateway);
                }
                if (meta.scope == scope_t.internet) {
                    if (meta.one_pass_only) {   // a switch has no sessions
                        to_cpu(meta, punt_reason_t.internet);
                    } else {
                        nat_source.apply(hdr, meta, nat);
                    }
                }
                if (!meta.one_pass_only && judged_late) {
                    service_direction.apply(hdr, meta, nat);
                }
            }

            // Which address takes the place of the VM's, or of the public one? A packet from the
            // Internet then goes to the VM as others do.
            if (!meta.one_pass_only && meta.nat != nat_t.none) {
                if (nat.kind == nat_kind_t.routed) {
                    internet_v6.apply(hdr, meta, internet);
                } else if (nat.kind == nat_kind_t.elastic) {
                    if (meta.from_internet) {
                        internet_source.apply(hdr, meta);
                    }
                    nat_elastic.apply(hdr, meta, nat);
                } else {
                    if (nat.kind == nat_kind_t.nat64) {
                        nat64_flow.apply(hdr, meta, nat);
                    } else if (meta.nat != nat_t.answer) {
                        nat_flow.apply(hdr, meta, nat);
                    }
                    if (meta.nat == nat_t.to_service) {
                        service_port.apply(hdr, meta, nat);
                    } else if (nat.kind == nat_kind_t.forward || nat.kind == nat_kind_t.only_forward) {
                        nat_forward.apply(meta, nat);
                    }
                    if (meta.from_internet && nat.kind != nat_kind_t.session) {
                        internet_source.apply(hdr, meta);
                    }
                    if (nat.kind == nat_kind_t.service && meta.from_internet) {
                        flow_hash.apply(hdr, meta);
                    }
                    if (nat.kind != nat_kind_t.forward && nat.kind != nat_kind_t.only_forward) {
                        nat.is_chosen = false;
                        nat_session.apply(hdr, meta, nat);
                        // A new connection gets a backend, and is looked up again, to add it.
                        if (!nat.is_known && nat.kind == nat_kind_t.service) {
                            if (!nat.opens) {
                                drop(meta, drop_reason_t.service_unasked);
                            }
                            service_choice.apply(meta, nat);
                            nat_session.apply(hdr, meta, nat);
                        }
                    }
                }

                // Does the backend of the connection serve? If not, its packets go where those of a new
                // connection would.
                if (nat.kind == nat_kind_t.service || nat.kind == nat_kind_t.answer && nat.is_found) {
                    if (nat.kind == nat_kind_t.service || nat.backend != nat.local
                        || nat.backend_port != nat.local_port) {
                        service_backend.apply(nat.service_vpc, nat.protocol, nat.backend, nat.backend_port, backend);
                        backend.is_up = backend.is_up && backend.port == nat.service_port
                            && (backend.address == nat.service || backend.public == nat.service);
                    } else {
                        backend.is_up = false;
                    }
                    if (nat.kind == nat_kind_t.answer) {
                        service_answer_check.apply(hdr, meta, nat, sender, backend.is_up);
                        nat.new_address = nat.service;
                        nat.new_port = nat.service_port;
                    } else {
                        if (!backend.is_up) {
                            if (nat.is_error) {
                                drop(meta, drop_reason_t.service_backend_down);
                            }
                            if (!nat.is_chosen) {
                                service_choice.apply(meta, nat);
                            }
                            service_refusal.apply(hdr, meta, nat);
                            nat.backend = nat.chosen;
                            nat.backend_port = nat.chosen_port;
                        }
                        nat.new_address = nat.backend;
                        nat.new_port = nat.backend_port;
                    }
                }
                if (meta.nat == nat_t.answer && !nat.is_found) {
                    meta.nat = nat_t.none;   // of no connection of a service: it goes on as it is
                }
                if (meta.nat == nat_t.inbound || meta.nat == nat_t.to_service) {
                    if (meta.nat == nat_t.to_service) {
                        service_sent.apply(hdr);
                        meta.scope = scope_t.local;
                    }
                    if (nat.kind == nat_kind_t.routed) {
                        if (internet.translates) {
                            npt.apply(hdr, meta, internet);
                        }
                    } else if (nat.kind == nat_kind_t.nat64) {
                        nat64_arrival.apply(hdr, meta, nat);
                    } else if (nat.is_error) {
                        nat_error.apply(hdr, nat);
                    } else {
                        nat_translate.apply(hdr, meta, nat);
                    }
                    flow_hash.apply(hdr, meta);
                    acl_in.apply(hdr, meta, meta.in_list);
                    vm_nc.apply(hdr, meta);
                } else if (meta.nat == nat_t.outbound) {
                    if (nat.kind == nat_kind_t.routed) {
                        internet_path.apply(hdr, meta);
                    } else if (nat.kind == nat_kind_t.nat64) {
                        nat64_path.apply(hdr, meta);
                    } else {
                        nat_path.apply(hdr, meta);
                    }
                }
            }

            // Do the security groups of both VMs permit the flow? Behind the translation of a packet
            // from the Internet, and before that of one to it: both have the VM's own address here.
            if (!meta.one_pass_only && (meta.has_groups || meta.from_internet)) {
                if (meta.nat == nat_t.none || nat.kind != nat_kind_t.routed) {
                    internet.answers_only = false;
                }
                groups.apply(hdr, meta, internet);
            }

            // The answer of a backend to a client in the VPC gets the address of the service.
            if (!meta.one_pass_only && judged_late && meta.nat != nat_t.to_service) {
                if (meta.nat == nat_t.answer) {
                    service_sent.apply(hdr);
                    if (nat.is_error) {
                        nat_error.apply(hdr, nat);
                    } else {
                        nat_translate.apply(hdr, meta, nat);
                    }
                }
                acl_in.apply(hdr, meta, meta.in_list);
            }
        }

        // Which path does it take? The length is checked before the tenant's packet is changed,
        // because an ICMP error quotes the packet as it was received.
        underlay.apply(hdr, meta, istd);
        if (istd.pass == FIRST_PASS) {
            inner_rewrite.apply(hdr, meta);
        }
        if (!meta.one_pass_only && istd.pass == FIRST_PASS && meta.nat == nat_t.outbound) {
            if (nat.kind == nat_kind_t.routed) {
                if (internet.translates) {
                    npt.apply(hdr, meta, internet);
                }
                internet_departure.apply(hdr, meta);
            } else if (nat.kind == nat_kind_t.nat64) {
                nat64_departure.apply(hdr, meta, nat);
            } else {
                if (nat.is_error) {
                    nat_error.apply(hdr, nat);
                } else {
                    nat_translate.apply(hdr, meta, nat);
                }
                nat_departure.apply(hdr, meta);
            }
            vlan_tag.apply(hdr, meta);
        } else if (!hdr.tcp.isValid()) {   // otherwise the second pass has only lowered its MSS
            encap.apply(hdr, meta);
            vlan_tag.apply(hdr, meta);
        }
        if (istd.pass != FIRST_PASS) {
            neighbour_mac.apply(hdr, meta);
        } else if (!meta.one_pass_only) {
            tcp_mss.apply(hdr, meta);
        }
    }
}

/// Runs before the main block, for devices with inline decryption. The gateway has none.
control gateway_pre(in headers_t hdr,
                    inout metadata_t meta,
                    in pna_pre_input_metadata_t istd,
                    inout pna_pre_output_metadata_t ostd) {
    apply { }
}

PNA_NIC(gateway_parser(), gateway_pre(), gateway(), gateway_deparser()) main;
