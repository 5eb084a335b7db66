// SPDX-License-Identifier: Apache-2.0
//
// Does a later fragment belong to a datagram whose first fragment passed? Later fragments have no
// ports, so the first one notes the datagram for 30 seconds (RFC 791: the same addresses, protocol and
// identification). A later fragment that comes before the first is dropped.
//
// A fragment of TCP that would change the header of the first one is dropped (RFC 3128, section 2).
// Over IPv6 the identification is in an extension header, which the parser does not extract: there
// `groups_flow` refuses all fragments.

#ifndef GATEWAY_GROUPS_FRAGMENT_P4
#define GATEWAY_GROUPS_FRAGMENT_P4

#include "metadata.p4"
#include "groups_flow.p4"
#include "verdicts.p4"

const ExpireTimeProfileId_t FLOW_DATAGRAM = (ExpireTimeProfileId_t) 8;

/// Offset of the first fragment behind a TCP header without options, in units of 8 bytes.
const bit<13> BEHIND_TCP = 3;

control groups_fragment_step(in headers_t hdr, inout metadata_t meta, in group_flow_t flow) {
    /// A fragment of a datagram whose first fragment passed. `flags` are none.
    action of_datagram(bit<1> flags) { }

    action note_datagram() {
        if (meta.fragment == fragment_t.later) {
            drop(meta, drop_reason_t.group_fragment);
        }
        // If there is no room, the later fragments are dropped.
        bool is_added = add_entry("of_datagram", 1w0, FLOW_DATAGRAM);
    }

    table datagrams {
        key = {
            flow.from_vni:                 exact @name("from_vni");
            flow.to_vni:                   exact @name("to_vni");
            flow.from_v4:                  exact @name("source") @format(IPV4_ADDRESS);
            flow.to_v4:                    exact @name("destination") @format(IPV4_ADDRESS);
            hdr.inner_ipv4.identification: exact @name("identification");
            flow.protocol:                 exact @name("protocol");
        }
        actions = { @tableonly of_datagram; @defaultonly note_datagram; }
        const default_action = note_datagram();
        add_on_miss = true;
        pna_idle_timeout = PNA_IdleTimeout_t.AUTO_DELETE;
        size = 262144;
    }

    apply {
        if (meta.fragment == fragment_t.later && flow.is_tcp && hdr.inner_ipv4.fragment_offset < BEHIND_TCP) {
            drop(meta, drop_reason_t.group_fragment);
        }
        datagrams.apply();
    }
}

#endif
