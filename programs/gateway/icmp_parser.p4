// SPDX-License-Identifier: Apache-2.0
//
// States of the parser for the second pass of a packet that causes an ICMP message. They are part of
// `gateway_parser`, which includes this file.
//
// The packet starts with the order for the message; the outer headers are gone. What an error quotes
// is extracted, as the sum of lengths that are powers of two. Bytes that are not quoted remain
// unread, and `encap` removes them.

#ifndef GATEWAY_ICMP_PARSER_P4
#define GATEWAY_ICMP_PARSER_P4

    state icmp_task {
        packet.extract(hdr.icmp_task);
        transition select(hdr.icmp_task.cause) {
            icmp_cause_t.tcp_mss: mss_outer;
            default:              icmp_cause;
        }
    }

    state icmp_cause {
        packet.extract(hdr.inner_ethernet);
        transition select(hdr.icmp_task.cause, hdr.inner_ethernet.ether_type) {
            (icmp_cause_t.echo, ETHERTYPE_IPV4):     echo_ipv4;
            (icmp_cause_t.echo, _):                  echo_ipv6;
            (icmp_cause_t.neighbour, ETHERTYPE_ARP): arp_request;
            (icmp_cause_t.neighbour, _):             echo_ipv6;
            (_, ETHERTYPE_IPV4):                 quoted_ipv4;
            default:                             quoted_ipv6;
        }
    }

    state echo_ipv4 {
        packet.extract(hdr.inner_ipv4);
        packet.extract(hdr.icmp);
        transition accept;
    }

    state echo_ipv6 {
        packet.extract(hdr.inner_ipv6);
        packet.extract(hdr.icmp);
        transition select(hdr.inner_ipv6.next_header, (bit<16>) hdr.icmp.type) {
            (PROTOCOL_ICMPV6, ND_SOLICITATION): solicitation;
            default:                            accept;
        }
    }

    state arp_request {
        packet.extract(hdr.arp);
        transition accept;
    }

    // Up to 32 bytes of options. `neighbour_answer` compares their number with the packet's length.
    state solicitation {
        packet.extract(hdr.nd);
        transition select(hdr.inner_ipv6.payload_length) {
            32:      nd_option_0;
            40:      nd_option_0;
            48:      nd_option_0;
            56:      nd_option_0;
            default: accept;
        }
    }

    state nd_option_0 {
        packet.extract(hdr.nd_option_0);
        transition select(hdr.inner_ipv6.payload_length) {
            32:      accept;
            default: nd_option_1;
        }
    }

    state nd_option_1 {
        packet.extract(hdr.nd_option_1);
        transition select(hdr.inner_ipv6.payload_length) {
            40:      accept;
            default: nd_option_2;
        }
    }

    state nd_option_2 {
        packet.extract(hdr.nd_option_2);
        transition select(hdr.inner_ipv6.payload_length) {
            48:      accept;
            default: nd_option_3;
        }
    }

    state nd_option_3 {
        packet.extract(hdr.nd_option_3);
        transition accept;
    }

    state quoted_ipv4 {
        packet.extract(hdr.quoted_ipv4);
        meta.quoted = hdr.quoted_ipv4.total_length - 20;
        transition quoted;
    }

    state quoted_ipv6 {
        packet.extract(hdr.quoted_ipv6);
        meta.quoted = hdr.quoted_ipv6.payload_length;
        transition quoted;
    }

    state quoted {
        transition select(meta.quoted >= MAX_QUOTED) {
            true:    quote_all;
            default: quote_rest;
        }
    }

    state quote_all {
        meta.quoted = MAX_QUOTED;
        packet.extract(hdr.quote_512);
        packet.extract(hdr.quote_256);
        transition accept;
    }

    state quote_rest {
        transition select(meta.quoted[8:8]) {
            1:       quote_256;
            default: below_256;
        }
    }

    state quote_256 {
        packet.extract(hdr.quote_256);
        transition below_256;
    }

    state below_256 {
        transition select(meta.quoted[7:7]) {
            1:       quote_128;
            default: below_128;
        }
    }

    state quote_128 {
        packet.extract(hdr.quote_128);
        transition below_128;
    }

    state below_128 {
        transition select(meta.quoted[6:6]) {
            1:       quote_64;
            default: below_64;
        }
    }

    state quote_64 {
        packet.extract(hdr.quote_64);
        transition below_64;
    }

    state below_64 {
        transition select(meta.quoted[5:5]) {
            1:       quote_32;
            default: below_32;
        }
    }

    state quote_32 {
        packet.extract(hdr.quote_32);
        transition below_32;
    }

    state below_32 {
        transition select(meta.quoted[4:4]) {
            1:       quote_16;
            default: below_16;
        }
    }

    state quote_16 {
        packet.extract(hdr.quote_16);
        transition below_16;
    }

    state below_16 {
        transition select(meta.quoted[3:3]) {
            1:       quote_8;
            default: below_8;
        }
    }

    state quote_8 {
        packet.extract(hdr.quote_8);
        transition below_8;
    }

    state below_8 {
        transition select(meta.quoted[2:2]) {
            1:       quote_4;
            default: below_4;
        }
    }

    state quote_4 {
        packet.extract(hdr.quote_4);
        transition below_4;
    }

    state below_4 {
        transition select(meta.quoted[1:1]) {
            1:       quote_2;
            default: below_2;
        }
    }

    state quote_2 {
        packet.extract(hdr.quote_2);
        transition below_2;
    }

    state below_2 {
        transition select(meta.quoted[0:0]) {
            1:       quote_1;
            default: after_quote;
        }
    }

    state quote_1 {
        packet.extract(hdr.quote_1);
        transition after_quote;
    }

    state after_quote {
        transition select(hdr.icmp_task.cause) {
            icmp_cause_t.tcp_mss: tcp_mss;
            default:              accept;
        }
    }

#endif
