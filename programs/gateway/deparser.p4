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
        packet.emit(hdr.outer_ethernet);
        packet.emit(hdr.outer_ipv4);
        packet.emit(hdr.outer_ipv6);
        packet.emit(hdr.outer_udp);
        packet.emit(hdr.vxlan);
        packet.emit(hdr.inner_ethernet);
        packet.emit(hdr.inner_ipv4);
        packet.emit(hdr.inner_ipv6);
    }
}

#endif
