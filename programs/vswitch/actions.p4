// SPDX-License-Identifier: Apache-2.0
//
// What a table can do with a packet. This is the inside of a control: each pipeline includes it at the head of its own.
//
// OpenFlow's goto_table is a parameter here: each action but those that end the walk has the number of the `next` table, and
// `apply` asks for the tables in their order, so that a packet can only go forward, as OpenFlow has it.

    /// On to another table, or with `END` out through the port that is decided by now.
    action goto_table(table_t next) {
        meta.next = next;
    }

    /// An entry that says no.
    action deny() {
        meta.drop_reason = drop_reason_t.policy;
        drop_packet();
        meta.next = END;
    }

    /// No entry, where there must be one.
    action refuse() {
        meta.drop_reason = drop_reason_t.no_entry;
        drop_packet();
        meta.next = END;
    }

    /// Control traffic.
    action to_controller() {
        meta.punt_reason = punt_reason_t.protocol;
        send_to_port((PortId_t) (PortIdUint_t) (InterfaceIdUint_t) PNA_PORT_CPU);
        meta.next = END;
    }

    /// A station to be learned.
    action unknown_station() {
        meta.punt_reason = punt_reason_t.station;
        send_to_port((PortId_t) (PortIdUint_t) (InterfaceIdUint_t) PNA_PORT_CPU);
        meta.next = END;
    }

    /// Out through the port, unless a later table objects.
    action forward(PortId_t port, table_t next) {
        send_to_port(port);
        meta.out_port = port;
        meta.next = next;
    }

    /// To the next hop: new MACs.
    action set_macs(mac_t dl_src, mac_t dl_dst, table_t next) {
        hdr.ethernet.source = dl_src;
        hdr.ethernet.destination = dl_dst;
        meta.next = next;
    }

    /// One hop fewer, and the checksum brought up to date (RFC 1624): the word of TTL and protocol becomes 0x0100 less, so the
    /// checksum becomes 0x0100 more, with the carry added at the end.
    action one_hop_fewer() {
        bit<17> sum = (bit<17>) hdr.ipv4.checksum + 0x0100;
        hdr.ipv4.checksum = sum[15:0] + (bit<16>) sum[16:16];
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
        hdr.ipv6.hop_limit = hdr.ipv6.hop_limit - 1;
    }

    /// RFC 1812, section 5.3.1: no hop is left.
    action expire() {
        meta.drop_reason = drop_reason_t.ttl_expired;
        drop_packet();
        meta.next = END;
    }

    /// A router's step: new MACs, one hop fewer, a port.
    action route(mac_t dl_src, mac_t dl_dst, PortId_t port, table_t next) {
        if (meta.expired) {
            expire();
        } else {
            one_hop_fewer();
            hdr.ethernet.source = dl_src;
            hdr.ethernet.destination = dl_dst;
            send_to_port(port);
            meta.out_port = port;
            meta.next = next;
        }
    }
