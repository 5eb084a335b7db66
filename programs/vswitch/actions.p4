// SPDX-License-Identifier: Apache-2.0
//
// Actions of the tables. This file is the inside of a control: each pipeline includes it at the start of its control.
//
// OpenFlow's goto_table is a parameter: each action, except those that end the processing, has the number of the `next`
// table. `apply` applies the tables in order, so that a packet only moves forward, as in OpenFlow.

    /// Continues at another table, or with `END` sends the packet through the chosen port.
    action goto_table(table_t next) {
        meta.next = next;
    }

    /// Drops the packet because an entry denies it.
    action deny() {
        meta.drop_reason = drop_reason_t.policy;
        drop_packet();
        meta.next = END;
    }

    /// Drops the packet because a required entry is missing.
    action refuse() {
        meta.drop_reason = drop_reason_t.no_entry;
        drop_packet();
        meta.next = END;
    }

    /// Sends control traffic to the CPU.
    action to_controller() {
        meta.punt_reason = punt_reason_t.protocol;
        send_to_port((PortId_t) (PortIdUint_t) (InterfaceIdUint_t) PNA_PORT_CPU);
        meta.next = END;
    }

    /// Sends the packet to the CPU, so that its station is learned.
    action unknown_station() {
        meta.punt_reason = punt_reason_t.station;
        send_to_port((PortId_t) (PortIdUint_t) (InterfaceIdUint_t) PNA_PORT_CPU);
        meta.next = END;
    }

    /// Sends the packet through the port, unless a later table drops it.
    action forward(PortId_t port, table_t next) {
        send_to_port(port);
        meta.out_port = port;
        meta.next = next;
    }

    /// Sets the MACs for the next hop.
    action set_macs(mac_t dl_src, mac_t dl_dst, table_t next) {
        hdr.ethernet.source = dl_src;
        hdr.ethernet.destination = dl_dst;
        meta.next = next;
    }

    /// Decrements the TTL and updates the checksum (RFC 1624): the word of TTL and protocol decreases by 0x0100, so the
    /// checksum increases by 0x0100 with end-around carry.
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

    /// Routes the packet: new MACs, one hop fewer, a port.
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
