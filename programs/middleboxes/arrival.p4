// SPDX-License-Identifier: Apache-2.0
//
// From which side does the packet come, and can a middlebox forward it? Chooses the output port and
// finds the ports of TCP and UDP. Gives a drop reason to packets that no middlebox forwards.

#ifndef MIDDLEBOXES_ARRIVAL_P4
#define MIDDLEBOXES_ARRIVAL_P4

#include "headers.p4"
#include "parser.p4"

/// Leaves the control with a drop reason. The main control drops the packet and counts it.
#define REFUSE(reason) { meta.drop_reason = drop_reason_t.reason; return; }

control arrival(inout headers_t hdr, inout metadata_t meta, in pna_main_input_metadata_t istd) {
    /// The side of the hosts or servers that the middlebox belongs to. Packets leave on port `to`,
    /// with the MAC addresses of the middlebox and of the next hop there.
    action inside(PortId_t to, mac_t mac, mac_t next_mac) {
        meta.is_outbound = 1;
        hdr.ethernet.source = mac;
        hdr.ethernet.destination = next_mac;
        send_to_port(to);
    }

    /// The side of the Internet.
    action outside(PortId_t to, mac_t mac, mac_t next_mac) {
        meta.is_outbound = 0;
        hdr.ethernet.source = mac;
        hdr.ethernet.destination = next_mac;
        send_to_port(to);
    }

    action not_configured() {
        meta.drop_reason = drop_reason_t.not_configured;
    }

    table links {
        key = { istd.input_port: exact @name("port"); }
        actions = { inside; outside; @defaultonly not_configured; }
        const default_action = not_configured();
        size = 64;
    }

    apply {
        meta.drop_reason = drop_reason_t.none;
        meta.is_first = true;
        if (istd.parser_error == error.Ipv4Checksum)
            REFUSE(wrong_checksum)
        if (istd.parser_error != error.NoError)
            REFUSE(malformed)
        if (!hdr.ipv4.isValid())
            REFUSE(not_ipv4)
        if (hdr.ipv4.version != 4 || hdr.ipv4.ihl < 5 || hdr.ipv4.total_length < 20)
            REFUSE(malformed)
        if (hdr.ipv4.ihl != 5)
            REFUSE(ip_options)
        if (hdr.ipv4.more_fragments == 1 || hdr.ipv4.fragment_offset != 0)
            REFUSE(fragment)
        if (hdr.ipv4.ttl <= 1)
            REFUSE(ttl_expired)
        if (hdr.tcp.isValid()) {
            // Bytes behind the IPv4 packet are padding of the Ethernet frame, and no ports.
            if (hdr.ipv4.total_length < 40 || hdr.tcp.data_offset < 5)
                REFUSE(malformed)
            meta.source_port = hdr.tcp.source;
            meta.destination_port = hdr.tcp.destination;
            meta.is_first = hdr.tcp.syn == 1 && hdr.tcp.ack == 0 && hdr.tcp.rst == 0;
        } else if (hdr.udp.isValid()) {
            if (hdr.ipv4.total_length < 28 || hdr.udp.length < 8)
                REFUSE(malformed)
            meta.source_port = hdr.udp.source;
            meta.destination_port = hdr.udp.destination;
        } else
            REFUSE(other_protocol)
        links.apply();
    }
}

#endif
