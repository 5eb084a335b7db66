// SPDX-License-Identifier: Apache-2.0
//
// Which packet is it? Extracts the headers up to the ports, and those of a quoted packet.

#ifndef NAT_PARSER_P4
#define NAT_PARSER_P4

#include "headers.p4"

const bit<16> ETHERTYPE_IPV4 = 0x0800;
const bit<8> PROTOCOL_ICMP = 1;
const bit<8> PROTOCOL_TCP = 6;
const bit<8> PROTOCOL_UDP = 17;
const bit<8> ICMP_ECHO_REPLY = 0;
const bit<8> ICMP_UNREACHABLE = 3;
const bit<8> ICMP_ECHO_REQUEST = 8;
const bit<8> ICMP_TIME_EXCEEDED = 11;
const bit<8> ICMP_PARAMETER_PROBLEM = 12;

parser nat_parser(packet_in packet,
                  out headers_t hdr,
                  inout metadata_t meta,
                  in pna_main_parser_input_metadata_t istd) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            ETHERTYPE_IPV4: parse_ipv4;
            default: accept;
        }
    }

    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        // IPv4 options and fragments are dropped, so ports follow the header.
        transition select(hdr.ipv4.ihl, hdr.ipv4.fragment_offset, hdr.ipv4.protocol) {
            (5, 0, PROTOCOL_TCP):  parse_tcp;
            (5, 0, PROTOCOL_UDP):  parse_udp;
            (5, 0, PROTOCOL_ICMP): parse_icmp;
            default: accept;
        }
    }

    state parse_tcp {
        packet.extract(hdr.tcp);
        transition accept;
    }

    state parse_udp {
        packet.extract(hdr.udp);
        transition accept;
    }

    state parse_icmp {
        packet.extract(hdr.icmp);
        transition select(hdr.icmp.type) {
            ICMP_ECHO_REPLY:        parse_echo;
            ICMP_ECHO_REQUEST:      parse_echo;
            ICMP_UNREACHABLE:       parse_error;
            ICMP_TIME_EXCEEDED:     parse_error;
            ICMP_PARAMETER_PROBLEM: parse_error;
            default: accept;
        }
    }

    state parse_echo {
        packet.extract(hdr.echo);
        transition accept;
    }

    state parse_error {
        packet.extract(hdr.unused);
        packet.extract(hdr.quoted_ipv4);
        transition select(hdr.quoted_ipv4.ihl, hdr.quoted_ipv4.fragment_offset, hdr.quoted_ipv4.protocol) {
            (5, 0, PROTOCOL_TCP):  parse_quoted_ports;
            (5, 0, PROTOCOL_UDP):  parse_quoted_ports;
            (5, 0, PROTOCOL_ICMP): parse_quoted_echo;
            default: accept;
        }
    }

    state parse_quoted_ports {
        packet.extract(hdr.quoted_ports);
        transition accept;
    }

    state parse_quoted_echo {
        packet.extract(hdr.quoted_echo);
        transition accept;
    }
}

#endif
