// SPDX-License-Identifier: Apache-2.0
//
// Emits the valid headers in order. The bytes that the parser did not read follow them.

#ifndef GATEWAY_DEPARSER_P4
#define GATEWAY_DEPARSER_P4

#include "headers.p4"
#include "metadata.p4"

control gateway_deparser(packet_out packet,
                         in headers_t hdr,
                         in metadata_t meta,
                         in pna_main_output_metadata_t ostd) {
    apply {
        packet.emit(hdr.icmp_task);
        packet.emit(hdr.outer_ethernet);
        packet.emit(hdr.outer_vlan);
        packet.emit(hdr.outer_ipv4);
        packet.emit(hdr.outer_ipv6);
        packet.emit(hdr.outer_udp);
        packet.emit(hdr.vxlan);
        packet.emit(hdr.inner_ethernet);
        packet.emit(hdr.arp);
        packet.emit(hdr.inner_ipv4);
        packet.emit(hdr.inner_ipv6);
        packet.emit(hdr.inner_fragment);
        packet.emit(hdr.l4);
        packet.emit(hdr.l4_rest);
        packet.emit(hdr.l4_icmp);
        packet.emit(hdr.tcp);
        packet.emit(hdr.icmp);
        packet.emit(hdr.nd);
        packet.emit(hdr.nd_option_0);
        packet.emit(hdr.nd_option_1);
        packet.emit(hdr.nd_option_2);
        packet.emit(hdr.nd_option_3);
        packet.emit(hdr.quoted_ipv4);
        packet.emit(hdr.quoted_ipv6);
        packet.emit(hdr.quoted_l4);
        packet.emit(hdr.quoted_echo);
        packet.emit(hdr.quote_512);
        packet.emit(hdr.quote_256);
        packet.emit(hdr.quote_128);
        packet.emit(hdr.quote_64);
        packet.emit(hdr.quote_32);
        packet.emit(hdr.quote_16);
        packet.emit(hdr.quote_8);
        packet.emit(hdr.quote_4);
        packet.emit(hdr.quote_2);
        packet.emit(hdr.quote_1);
        packet.emit(hdr.tcp_mss);
    }
}

#endif
