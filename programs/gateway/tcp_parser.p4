// SPDX-License-Identifier: Apache-2.0
//
// States of the parser that find whether a TCP packet opens a connection. They are part of
// `gateway_parser`, which includes this file. They follow the state that reads the ports, which UDP
// has as well, so that native code has one path for both.

#ifndef GATEWAY_TCP_PARSER_P4
#define GATEWAY_TCP_PARSER_P4

    state tcp {
        transition select(hdr.inner_ipv4.isValid()) {
            true:    tcp_over_ipv4;
            default: tcp_over_ipv6;
        }
    }

    // A datagram that is too short for a TCP header has ports only.
    state tcp_over_ipv4 {
        transition select(hdr.inner_ipv4.total_length >= 40) {
            true:    tcp_flags;
            default: accept;
        }
    }

    state tcp_over_ipv6 {
        transition select(hdr.inner_ipv6.payload_length >= 20) {
            true:    tcp_flags;
            default: accept;
        }
    }

    // The byte with SYN, which is bit 1.
    state tcp_flags {
        bit<8> flags = packet.lookahead<bit<112>>()[7:0];
        transition select(flags[1:1]) {
            0:       accept;
            default: opens_tcp;
        }
    }

    state opens_tcp {
        meta.opens_tcp = true;
        transition accept;
    }

#endif
