// SPDX-License-Identifier: Apache-2.0
//
// May the packet pass? A firewall between two ports with a list of allowed 5-tuples for each
// direction. The controller alone writes the lists; packets write nothing.

#include <core.p4>
#include <pna.p4>

#include "../headers.p4"
#include "../parser.p4"
#include "../arrival.p4"
#include "../rewrite.p4"

control firewall(inout headers_t hdr,
                 inout metadata_t meta,
                 in pna_main_input_metadata_t istd,
                 inout pna_main_output_metadata_t ostd) {
    /// Dropped packets, by the number of their reason.
    Counter<bit<64>, bit<8>>(16, PNA_CounterType_t.PACKETS) drops;

    action allow() { }

    action not_allowed() {
        meta.drop_reason = drop_reason_t.not_allowed;
    }

    /// Allowed packets from inside.
    table outbound {
        key = {
            hdr.ipv4.protocol:     exact @name("protocol");
            hdr.ipv4.source:       exact @name("source");
            meta.source_port:      exact @name("source_port");
            hdr.ipv4.destination:  exact @name("destination");
            meta.destination_port: exact @name("destination_port");
        }
        actions = { @tableonly allow; @defaultonly not_allowed; }
        const default_action = not_allowed();
        size = 65536;
    }

    /// Allowed packets from outside.
    table inbound {
        key = {
            hdr.ipv4.protocol:     exact @name("protocol");
            hdr.ipv4.source:       exact @name("source");
            meta.source_port:      exact @name("source_port");
            hdr.ipv4.destination:  exact @name("destination");
            meta.destination_port: exact @name("destination_port");
        }
        actions = { @tableonly allow; @defaultonly not_allowed; }
        const default_action = not_allowed();
        size = 65536;
    }

    apply {
        arrival.apply(hdr, meta, istd);
        if (meta.drop_reason == drop_reason_t.none) {
            if (meta.is_outbound == 1)
                outbound.apply();
            else
                inbound.apply();
        }
        if (meta.drop_reason == drop_reason_t.none) {
            decrement_ttl.apply(hdr);
        } else {
            drops.count((bit<8>) meta.drop_reason);
            drop_packet();
        }
    }
}

PNA_NIC(ports_parser(), pre(), firewall(), ports_deparser()) main;
