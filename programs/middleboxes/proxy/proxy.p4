// SPDX-License-Identifier: Apache-2.0
//
// Does the packet go to the proxy? TCP from inside to the configured ports does; all other packets
// are passed on as they are. Packets write nothing.

#include <core.p4>
#include <pna.p4>

#include "../headers.p4"
#include "../parser.p4"
#include "../arrival.p4"
#include "../rewrite.p4"

control proxy(inout headers_t hdr,
              inout metadata_t meta,
              in pna_main_input_metadata_t istd,
              inout pna_main_output_metadata_t ostd) {
    /// Dropped packets, by the number of their reason.
    Counter<bit<64>, bit<8>>(16, PNA_CounterType_t.PACKETS) drops;

    bool    is_redirected;
    ipv4_t  proxy_address;
    bit<16> proxy_port;

    /// The packet goes to the proxy at `address` and `port`, by the next hop with `next_mac`.
    action redirect(ipv4_t address, bit<16> port, mac_t next_mac) {
        is_redirected = true;
        proxy_address = address;
        proxy_port = port;
        hdr.ethernet.destination = next_mac;
    }

    /// Ports of TCP that go to a proxy.
    table proxied_ports {
        key = { meta.destination_port: exact @name("port"); }
        actions = { @tableonly redirect; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 1024;
    }

    apply {
        arrival.apply(hdr, meta, istd);
        is_redirected = false;
        if (meta.drop_reason == drop_reason_t.none && meta.is_outbound == 1 && hdr.tcp.isValid())
            proxied_ports.apply();
        if (meta.drop_reason != drop_reason_t.none) {
            drops.count((bit<8>) meta.drop_reason);
            drop_packet();
        } else if (is_redirected) {
            bit<16> difference = sum_difference(hdr.ipv4.destination, meta.destination_port,
                                                proxy_address, proxy_port);
            translate.apply(hdr, 0, proxy_address, proxy_port, difference);
        } else {
            decrement_ttl.apply(hdr);
        }
    }
}

PNA_NIC(ports_parser(), pre(), proxy(), ports_deparser()) main;
