// SPDX-License-Identifier: Apache-2.0
//
// Which packet is it? Extracts the headers up to the ports, and emits them in the same order.

#ifndef MIDDLEBOXES_PARSER_P4
#define MIDDLEBOXES_PARSER_P4

#include "headers.p4"

error {
    Ipv4Checksum
}

parser ports_parser(packet_in packet,
                    out headers_t hdr,
                    inout metadata_t meta,
                    in pna_main_parser_input_metadata_t istd) {
    InternetChecksum() header_sum;

    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            ETHERTYPE_IPV4: parse_ipv4;
            default: accept;
        }
    }

    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.ihl) {
            5: verify_checksum;
            default: accept;
        }
    }

    /// Without options, the header's checksum covers these 20 bytes. It is verified here because a
    /// switch computes checksums in its parser.
    state verify_checksum {
        header_sum.add({ hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.dscp_ecn, hdr.ipv4.total_length,
                         hdr.ipv4.identification, hdr.ipv4.reserved, hdr.ipv4.dont_fragment,
                         hdr.ipv4.more_fragments, hdr.ipv4.fragment_offset, hdr.ipv4.ttl,
                         hdr.ipv4.protocol, hdr.ipv4.checksum, hdr.ipv4.source,
                         hdr.ipv4.destination });
        verify(header_sum.get() == 0, error.Ipv4Checksum);
        transition select(hdr.ipv4.fragment_offset, hdr.ipv4.protocol) {
            (0, PROTOCOL_TCP): parse_tcp;
            (0, PROTOCOL_UDP): parse_udp;
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
}

control pre(in headers_t hdr, inout metadata_t meta, in pna_pre_input_metadata_t istd,
            inout pna_pre_output_metadata_t ostd) {
    apply { }
}

control ports_deparser(packet_out packet, in headers_t hdr, in metadata_t meta,
                       in pna_main_output_metadata_t ostd) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.udp);
        packet.emit(hdr.tcp);
    }
}

#endif
