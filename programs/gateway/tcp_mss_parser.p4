// SPDX-License-Identifier: Apache-2.0
//
// States of the parser for the second pass of a packet that opens a TCP connection. They are part of
// `gateway_parser`, which includes this file.
//
// The packet starts with the order and has its final headers. The walk over the TCP options (RFC
// 9293, section 3.1) looks ahead and ends at the MSS option, at the end of the options, or at an
// option that breaks the format. Then the bytes before the MSS option are extracted, in the headers of
// quotations. A packet without a valid MSS option stays as it is.

#ifndef GATEWAY_TCP_MSS_PARSER_P4
#define GATEWAY_TCP_MSS_PARSER_P4

    state mss_outer {
        packet.extract(hdr.outer_ethernet);
        transition select(hdr.outer_ethernet.ether_type) {
            ETHERTYPE_IPV4: mss_outer_ipv4;
            ETHERTYPE_VLAN: mss_outer_vlan;
            default:        mss_outer_ipv6;
        }
    }

    state mss_outer_vlan {
        packet.extract(hdr.outer_vlan);
        transition select(hdr.outer_vlan.ether_type) {
            ETHERTYPE_IPV4: mss_outer_ipv4;
            default:        mss_outer_ipv6;
        }
    }

    state mss_outer_ipv4 {
        packet.extract(hdr.outer_ipv4);
        transition select(hdr.outer_ipv4.protocol) {
            PROTOCOL_TCP: mss_plain;
            default:      mss_tunnel;
        }
    }

    // To the Internet.
    state mss_plain {
        left = hdr.outer_ipv4.total_length - 20;
        transition mss_tcp;
    }

    state mss_outer_ipv6 {
        packet.extract(hdr.outer_ipv6);
        transition select(hdr.outer_ipv6.next_header) {
            PROTOCOL_TCP: mss_plain_ipv6;
            default:      mss_tunnel;
        }
    }

    state mss_plain_ipv6 {
        left = hdr.outer_ipv6.payload_length;
        transition mss_tcp;
    }

    state mss_tunnel {
        packet.extract(hdr.outer_udp);
        packet.extract(hdr.vxlan);
        packet.extract(hdr.inner_ethernet);
        transition select(hdr.inner_ethernet.ether_type) {
            ETHERTYPE_IPV4: mss_ipv4;
            default:        mss_ipv6;
        }
    }

    state mss_ipv4 {
        packet.extract(hdr.inner_ipv4);
        left = hdr.inner_ipv4.total_length - 20;
        transition mss_tcp;
    }

    state mss_ipv6 {
        packet.extract(hdr.inner_ipv6);
        left = hdr.inner_ipv6.payload_length;
        transition mss_tcp;
    }

    // Options that would end behind the datagram are not read. `left` is their length from here on,
    // and `at` the number of bytes before the current one.
    state mss_tcp {
        packet.extract(hdr.tcp);
        words = (bit<16>) hdr.tcp.data_offset;
        transition select(4 * words <= left) {
            true:    mss_options;
            default: accept;
        }
    }

    state mss_options {
        left = 4 * words - 20;
        transition select(hdr.tcp.data_offset) {
            6:       mss_options_1;
            7:       mss_options_2;
            8:       mss_options_3;
            9:       mss_options_4;
            10:      mss_options_5;
            11:      mss_options_6;
            12:      mss_options_7;
            13:      mss_options_8;
            14:      mss_options_9;
            15:      mss_options_10;
            default: accept;
        }
    }

    // The first option is on the left. The zeros behind the options are the option that ends them.
    state mss_options_1  { options = packet.lookahead<bit<32>>() ++ 288w0; transition mss_option; }
    state mss_options_2  { options = packet.lookahead<bit<64>>() ++ 256w0; transition mss_option; }
    state mss_options_3  { options = packet.lookahead<bit<96>>() ++ 224w0; transition mss_option; }
    state mss_options_4  { options = packet.lookahead<bit<128>>() ++ 192w0; transition mss_option; }
    state mss_options_5  { options = packet.lookahead<bit<160>>() ++ 160w0; transition mss_option; }
    state mss_options_6  { options = packet.lookahead<bit<192>>() ++ 128w0; transition mss_option; }
    state mss_options_7  { options = packet.lookahead<bit<224>>() ++ 96w0; transition mss_option; }
    state mss_options_8  { options = packet.lookahead<bit<256>>() ++ 64w0; transition mss_option; }
    state mss_options_9  { options = packet.lookahead<bit<288>>() ++ 32w0; transition mss_option; }
    state mss_options_10 { options = packet.lookahead<bit<320>>(); transition mss_option; }

    state mss_option {
        transition select(options[319:312]) {
            TCP_OPTION_END:  accept;
            TCP_OPTION_NONE: mss_skip_none;
            TCP_OPTION_MSS:  mss_found;
            default:         mss_other;
        }
    }

    state mss_skip_none {
        words = 1;
        transition mss_skip;
    }

    state mss_other {
        words = (bit<16>) options[311:304];
        transition select(words) {
            0 .. 1:  accept;
            default: mss_skip;
        }
    }

    // One byte at a time, at most 40 times: `words` counts the bytes.
    state mss_skip {
        options = options << 8;
        at = at + 1;
        words = words - 1;
        transition select(at == left, words) {
            (true, _): accept;
            (_, 0):    mss_option;
            default:   mss_skip;
        }
    }

    state mss_found {
        transition select(options[311:304] == 4 && at + 4 <= left) {
            true:    mss_extract;
            default: accept;
        }
    }

    // At most 36 bytes.
    state mss_extract {
        meta.quoted = at;
        transition below_64;
    }

    state tcp_mss {
        packet.extract(hdr.tcp_mss);
        transition accept;
    }

#endif
