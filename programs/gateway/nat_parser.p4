// SPDX-License-Identifier: Apache-2.0
//
// States of the parser for layer 4 of IPv4 packets without options: of tenants, because they may go
// to the Internet, and of plain packets, because they may come from there. They are part of
// `gateway_parser`, which includes this file. A switch has none of these headers: it reads ports, and the
// kinds of packets for the gateway itself.
//
// TCP and UDP have one path: 20 bytes are extracted if the datagram has them. So the common packets
// of both take the same code, and the parser looks at nothing a second time.

#ifndef GATEWAY_NAT_PARSER_P4
#define GATEWAY_NAT_PARSER_P4

    // ---- of a tenant ------------------------------------------------------------------------

    state inner_ipv4_tcp_or_udp {
        transition select(meta.one_pass_only) {
            false:   inner_layer_4;
            default: ports;
        }
    }

    state inner_ipv4_icmp {
        transition select(meta.one_pass_only) {
            false:   inner_icmp;
            default: icmp;
        }
    }

    // SCTP, UDP-Lite and DCCP: ports, and the checksum of the last two.
    state inner_ipv4_other_ports {
        transition select(meta.one_pass_only) {
            false:   inner_other_ports;
            default: ports;
        }
    }

    state inner_other_ports {
        transition select(hdr.inner_ipv4.total_length >= 28) {
            true:    inner_short_header;
            default: ports;
        }
    }

    state inner_layer_4 {
        transition select(hdr.inner_ipv4.total_length >= 40) {
            true:    inner_long_layer_4;
            default: inner_short_layer_4;
        }
    }

    state inner_long_layer_4 {
        packet.extract(hdr.l4);
        packet.extract(hdr.l4_rest);
        meta.l4_source = hdr.l4.source;
        meta.l4_destination = hdr.l4.destination;
        transition select(meta.protocol) {
            PROTOCOL_TCP: inner_tcp_flags;
            default:      accept;
        }
    }

    state inner_tcp_flags {
        transition select(hdr.l4_rest.flags[1:1]) {
            0:       accept;
            default: opens_tcp;
        }
    }

    // A datagram that is too short for its layer 4 header has ports only.
    state inner_short_layer_4 {
        transition select(hdr.inner_ipv4.total_length >= 28, meta.protocol) {
            (true, PROTOCOL_UDP): inner_short_header;
            default:              ports;
        }
    }

    state inner_short_header {
        packet.extract(hdr.l4);
        meta.l4_source = hdr.l4.source;
        meta.l4_destination = hdr.l4.destination;
        transition accept;
    }

    state inner_icmp {
        transition select(hdr.inner_ipv4.total_length >= 28) {
            true:    inner_icmp_header;
            default: icmp;
        }
    }

    state inner_icmp_header {
        packet.extract(hdr.l4_icmp);
        meta.l4_source = (bit<16>) hdr.l4_icmp.type;
        meta.l4_destination = (bit<16>) hdr.l4_icmp.code;
        transition select(hdr.inner_ipv4.total_length >= 56, hdr.l4_icmp.type) {
            (true, ICMP_UNREACHABLE):                           quote_of_error;
            (true, ICMP_TIME_EXCEEDED .. ICMP_PARAMETER_PROBLEM): quote_of_error;
            default:                                            accept;
        }
    }

    // ---- plain ------------------------------------------------------------------------------

    state outer_ipv4_tcp {
        transition select(meta.one_pass_only) {
            false:   outer_layer_4_tcp;
            default: outer_tcp;
        }
    }

    state outer_ipv4_icmp {
        transition select(meta.one_pass_only) {
            false:   outer_layer_4_icmp;
            default: outer_icmp;
        }
    }

    state outer_layer_4_tcp {
        transition select(hdr.outer_ipv4.total_length >= 40) {
            true:    outer_tcp_header;
            default: outer_tcp;
        }
    }

    state outer_tcp_header {
        packet.extract(hdr.l4);
        packet.extract(hdr.l4_rest);
        meta.opens_tcp = hdr.l4_rest.flags[1:1] == 1;
        transition select(hdr.l4.source, hdr.l4.destination) {
            (TCP_PORT_BGP, _): kind_bgp;
            (_, TCP_PORT_BGP): kind_bgp;
            default:           accept;
        }
    }

    state outer_layer_4_icmp {
        transition select(hdr.outer_ipv4.total_length >= 28) {
            true:    outer_icmp_header;
            default: outer_icmp;
        }
    }

    state outer_icmp_header {
        packet.extract(hdr.l4_icmp);
        transition select(hdr.l4_icmp.type) {
            ICMP_UNREACHABLE:                             outer_icmp_error;
            ICMP_TIME_EXCEEDED .. ICMP_PARAMETER_PROBLEM: outer_icmp_error;
            default:                                      kind_icmp;
        }
    }

    // First fragments and further protocols. For a public address of a NAT they are dropped.
    state outer_ipv4_rarer {
        transition select(meta.one_pass_only) {
            false:   outer_rarer;
            default: accept;
        }
    }

    state outer_rarer {
        transition select(hdr.outer_ipv4.fragment_offset, hdr.outer_ipv4.more_fragments,
                          hdr.outer_ipv4.protocol) {
            (0, 1, PROTOCOL_TCP):     outer_first_tcp;
            (0, 1, PROTOCOL_UDP):     outer_ports;
            (0, 1, PROTOCOL_ICMP):    outer_first_icmp;
            (0, _, PROTOCOL_SCTP):    outer_ports;
            (0, _, PROTOCOL_UDPLITE): outer_ports;
            (0, _, PROTOCOL_DCCP):    outer_ports;
            default:                  accept;
        }
    }

    state outer_first_tcp {
        transition select(hdr.outer_ipv4.total_length >= 40) {
            true:    outer_first_tcp_header;
            default: accept;
        }
    }

    state outer_first_tcp_header {
        packet.extract(hdr.l4);
        packet.extract(hdr.l4_rest);
        transition accept;
    }

    state outer_ports {
        transition select(hdr.outer_ipv4.total_length >= 28) {
            true:    outer_ports_header;
            default: accept;
        }
    }

    state outer_ports_header {
        packet.extract(hdr.l4);
        transition accept;
    }

    state outer_first_icmp {
        transition select(hdr.outer_ipv4.total_length >= 28) {
            true:    outer_first_icmp_header;
            default: accept;
        }
    }

    state outer_first_icmp_header {
        packet.extract(hdr.l4_icmp);
        transition accept;
    }

    state outer_icmp_error {
        meta.punt_kind = punt_reason_t.icmp_error;
        transition select(hdr.outer_ipv4.total_length >= 56) {
            true:    quote_of_error;
            default: accept;
        }
    }

    // ---- the packet that an ICMP error quotes, with 8 bytes of layer 4 (RFC 792) --------------

    state quote_of_error {
        packet.extract(hdr.quoted_ipv4);
        transition select(hdr.quoted_ipv4.ihl, hdr.quoted_ipv4.fragment_offset,
                          hdr.quoted_ipv4.protocol) {
            (5, 0, PROTOCOL_TCP):  quoted_l4;
            (5, 0, PROTOCOL_UDP):  quoted_l4;
            (5, 0, PROTOCOL_ICMP): quoted_echo;
            default:               accept;
        }
    }

    state quoted_l4 {
        packet.extract(hdr.quoted_l4);
        transition accept;
    }

    state quoted_echo {
        packet.extract(hdr.quoted_echo);
        transition accept;
    }

#endif
