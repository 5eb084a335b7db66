// SPDX-License-Identifier: Apache-2.0
//
// Does the gateway answer an ARP request of the underlay? Only for public addresses, which the host does
// not have, and only where the region asks for it: so a plain router on the link finds them. All other
// requests go to the CPU, and so do announcements, because the host must see a conflict (RFC 5227).
//
// An answer is as long as its request and goes back by the same port, so it needs no limit: a sender
// gets no more than it sends.

#ifndef GATEWAY_PUBLIC_ARP_P4
#define GATEWAY_PUBLIC_ARP_P4

#include "metadata.p4"
#include "verdicts.p4"

control public_arp_step(inout headers_t hdr, inout metadata_t meta, in pna_main_input_metadata_t istd) {
    ipv4_t asker;

    /// Answers with the port and the MAC of the uplink.
    action answer_arp(PortId_t port, mac_t mac) {
        asker = hdr.arp.sender;
        hdr.arp.operation = 2;
        hdr.arp.target_mac = hdr.arp.sender_mac;
        hdr.arp.sender_mac = mac;
        hdr.arp.sender = hdr.arp.target;
        hdr.arp.target = asker;
        hdr.outer_ethernet.destination = hdr.arp.target_mac;
        hdr.outer_ethernet.source = mac;
        icmp_sent.count((bit<8>) icmp_cause_t.neighbour);
        send_to_port(port);
        exit;
    }

    /// One entry for each public address on each uplink to the Internet. `vid` is 0 without a VLAN.
    table public_arp {
        key = {
            (bit<16>) (PortIdUint_t) istd.input_port: exact @name("port");
            hdr.outer_vlan.vid:                       exact @name("vid");
            hdr.arp.target:                           exact @name("address") @format(IPV4_ADDRESS);
        }
        actions = { answer_arp; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 65536;
    }

    apply {
        if (hdr.arp.hardware == 1 && hdr.arp.protocol == ETHERTYPE_IPV4 && hdr.arp.hardware_length == 6
            && hdr.arp.protocol_length == 4 && hdr.arp.operation == 1 && hdr.arp.sender != hdr.arp.target
            && hdr.arp.sender_mac[40:40] == 0) {
            public_arp.apply();
        }
    }
}

#endif
