// SPDX-License-Identifier: Apache-2.0
//
// Source NAT between two ports: hosts of a private network reach the Internet by public addresses.
// UDP, TCP and ICMP over IPv4; ports in blocks by subscriber. README.md lists what it does and what
// it leaves out. It is also the program that measures tables that packets write.

#include <core.p4>
#include <pna.p4>
#include <terrace.p4>

#include "headers.p4"
#include "parser.p4"
#include "classify.p4"

/// Outside addresses and subscribers of the pool.
#define POOL_ADDRESSES 1024
#define POOL_SUBSCRIBERS 1048576

// Expire time profiles. README.md has the times.
const ExpireTimeProfileId_t UDP_SESSION     = (ExpireTimeProfileId_t) 0;
const ExpireTimeProfileId_t ICMP_SESSION    = (ExpireTimeProfileId_t) 1;
const ExpireTimeProfileId_t TCP_TRANSITORY  = (ExpireTimeProfileId_t) 2;
const ExpireTimeProfileId_t TCP_ESTABLISHED = (ExpireTimeProfileId_t) 3;

/// Key of a session in one direction.
struct session_key_t {
    bit<1>  is_outbound;
    bit<8>  protocol;
    ipv4_t  address;         // of the subscriber, or of the pool
    bit<16> port;
    ipv4_t  remote;
    bit<16> remote_port;
}

/// Translated address and port.
struct translation_t {
    ipv4_t  address;
    bit<16> port;
}

control nat(inout headers_t hdr,
            inout metadata_t meta,
            in pna_main_input_metadata_t istd,
            inout pna_main_output_metadata_t ostd) {
    PortPool(POOL_ADDRESSES, POOL_SUBSCRIBERS, 3, 0) ports;
    Hash<bit<32>>(PNA_HashAlgorithm_t.CRC32) flow_hash;
    InternetChecksum() ip_sum;
    InternetChecksum() payload_sum;
    InternetChecksum() quoted_sum;
    InternetChecksum() quoted_payload_sum;

    bit<1>  is_outbound;
    ipv4_t  first_inside;
    ipv4_t  first_outside;
    bit<32> address_count;
    bit<32> max_blocks;
    bit<32> secret;
    bit<8>  protocol;
    ipv4_t  local;
    ipv4_t  remote;
    ipv4_t  new_address;
    bit<16> new_port;

    /// The side of the subscribers. Their addresses are numbered from `first` on. They share
    /// `count` public addresses from `public_first` on, each with at most `blocks` blocks of ports.
    /// `key` makes ports hard to guess (RFC 6056).
    action inside(PortId_t to, mac_t mac, mac_t next_mac, ipv4_t first, ipv4_t public_first,
                  bit<32> count, bit<32> blocks, bit<32> key) {
        is_outbound = 1;
        hdr.ethernet.source = mac;
        hdr.ethernet.destination = next_mac;
        first_inside = first;
        first_outside = public_first;
        address_count = count;
        max_blocks = blocks;
        secret = key;
        send_to_port(to);
    }

    /// The side of the Internet.
    action outside(PortId_t to, mac_t mac, mac_t next_mac) {
        is_outbound = 0;
        hdr.ethernet.source = mac;
        hdr.ethernet.destination = next_mac;
        send_to_port(to);
    }

    action not_configured() {
        DROP(not_configured)
    }

    table links {
        key = { istd.input_port: exact @name("port"); }
        actions = { inside; outside; @defaultonly not_configured; }
        const default_action = not_configured();
        size = 64;
    }

    /// A packet of a session. A time-out starts again with each packet but ICMP errors (RFC 5508,
    /// section 4.4). A TCP session is established with the answer to its SYN, until a FIN or RST.
    action translate(ipv4_t address, bit<16> port) {
        new_address = address;
        new_port = port;
        if (hdr.tcp.isValid()) {
            bool closes = hdr.tcp.fin == 1 || hdr.tcp.rst == 1;
            bool opens = hdr.tcp.syn == 1 && is_outbound == 0;
            update_expire_info(true, closes || opens, closes ? TCP_TRANSITORY : TCP_ESTABLISHED);
        } else if (meta.is_error == 0) {
            restart_expire_timer();
        }
    }

    /// The first packet of a session: takes a port, and adds the session in both directions.
    action open() {
        if (meta.opens == 0) {
            if (hdr.tcp.isValid() && is_outbound == 1)
                DROP(tcp_without_syn)
            DROP(no_session)
        }
        bit<8> space = protocol == PROTOCOL_UDP ? 8w0 : protocol == PROTOCOL_TCP ? 8w1 : 8w2;
        bit<32> hash = flow_hash.get_hash({ local, remote, meta.port, meta.remote_port, secret });
        PortLease_t lease = ports.take(0, address_count, local - first_inside, max_blocks, space, hash);
        if (lease.status == PortPoolStatus_t.EMPTY)
            DROP(no_free_block)
        if (lease.status == PortPoolStatus_t.QUOTA)
            DROP(port_quota)
        if (lease.status == PortPoolStatus_t.INVALID)
            DROP(no_subscriber)
        new_address = first_outside + lease.address;
        new_port = lease.port;
        session_key_t answer = { 0, protocol, new_address, new_port, remote, meta.remote_port };
        translation_t out_translation = { new_address, new_port };
        translation_t in_translation = { local, meta.port };
        bool is_added = add_entry_pair(
            "translate", out_translation, answer, "translate", in_translation,
            space == 0 ? UDP_SESSION : space == 1 ? TCP_TRANSITORY : ICMP_SESSION);
        if (!is_added)
            DROP(table_full)
    }

    table sessions {
        key = {
            is_outbound:      exact @name("is_outbound");
            protocol:         exact @name("protocol");
            local:            exact @name("address");
            meta.port:        exact @name("port");
            remote:           exact @name("remote");
            meta.remote_port: exact @name("remote_port");
        }
        actions = { @tableonly translate; @defaultonly open; }
        const default_action = open();
        add_on_miss = true;
        pna_idle_timeout = PNA_IdleTimeout_t.AUTO_DELETE;
        size = 4194304;
    }

    /// Replaces address and port, and corrects the checksums by their difference (RFC 1624). A UDP
    /// checksum of 0 means that there is none.
    action rewrite() {
        ipv4_t old_address = is_outbound == 1 ? hdr.ipv4.source : hdr.ipv4.destination;
        ip_sum.subtract({ hdr.ipv4.checksum, old_address, hdr.ipv4.ttl, hdr.ipv4.protocol });
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
        ip_sum.add({ new_address, hdr.ipv4.ttl, hdr.ipv4.protocol });
        hdr.ipv4.checksum = ip_sum.get();
        hdr.ipv4.source = is_outbound == 1 ? new_address : hdr.ipv4.source;
        hdr.ipv4.destination = is_outbound == 1 ? hdr.ipv4.destination : new_address;
        if (hdr.udp.isValid()) {
            payload_sum.subtract({ hdr.udp.checksum, old_address, meta.port });
            payload_sum.add({ new_address, new_port });
            bit<16> sum = payload_sum.get();
            hdr.udp.checksum = hdr.udp.checksum == 0 ? 16w0 : sum == 0 ? 16w0xffff : sum;
            hdr.udp.source = is_outbound == 1 ? new_port : hdr.udp.source;
            hdr.udp.destination = is_outbound == 1 ? hdr.udp.destination : new_port;
        } else if (hdr.tcp.isValid()) {
            payload_sum.subtract({ hdr.tcp.checksum, old_address, meta.port });
            payload_sum.add({ new_address, new_port });
            hdr.tcp.checksum = payload_sum.get();
            hdr.tcp.source = is_outbound == 1 ? new_port : hdr.tcp.source;
            hdr.tcp.destination = is_outbound == 1 ? hdr.tcp.destination : new_port;
        } else {
            payload_sum.subtract({ hdr.icmp.checksum, meta.port });
            payload_sum.add({ new_port });
            hdr.icmp.checksum = payload_sum.get();
            hdr.echo.identifier = new_port;
        }
    }

    /// Replaces address and port in an ICMP error and in the packet that it quotes, which went the
    /// other way. The quoted payload's checksum covers bytes that the quotation lacks; it is
    /// corrected where it is quoted (RFC 5508, section 4.2).
    action rewrite_error() {
        ipv4_t old_address = is_outbound == 1 ? hdr.quoted_ipv4.destination : hdr.quoted_ipv4.source;
        ipv4_t old_outer = is_outbound == 1 ? hdr.ipv4.source : hdr.ipv4.destination;
        ip_sum.subtract({ hdr.ipv4.checksum, old_outer, hdr.ipv4.ttl, hdr.ipv4.protocol });
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
        ip_sum.add({ new_address, hdr.ipv4.ttl, hdr.ipv4.protocol });
        hdr.ipv4.checksum = ip_sum.get();
        hdr.ipv4.source = is_outbound == 1 ? new_address : hdr.ipv4.source;
        hdr.ipv4.destination = is_outbound == 1 ? hdr.ipv4.destination : new_address;
        // The ICMP checksum covers the quotation: each changed word of it, its checksums too.
        payload_sum.subtract({ hdr.icmp.checksum, hdr.quoted_ipv4.checksum, old_address, meta.port });
        quoted_sum.subtract({ hdr.quoted_ipv4.checksum, old_address });
        quoted_sum.add({ new_address });
        hdr.quoted_ipv4.checksum = quoted_sum.get();
        hdr.quoted_ipv4.source = is_outbound == 1 ? hdr.quoted_ipv4.source : new_address;
        hdr.quoted_ipv4.destination = is_outbound == 1 ? new_address : hdr.quoted_ipv4.destination;
        payload_sum.add({ hdr.quoted_ipv4.checksum, new_address, new_port });
        if (hdr.quoted_echo.isValid()) {
            payload_sum.subtract({ hdr.quoted_echo.checksum });
            quoted_payload_sum.subtract({ hdr.quoted_echo.checksum, meta.port });
            quoted_payload_sum.add({ new_port });
            hdr.quoted_echo.checksum = quoted_payload_sum.get();
            payload_sum.add({ hdr.quoted_echo.checksum });
            hdr.quoted_echo.identifier = new_port;
        } else {
            hdr.quoted_ports.source = is_outbound == 1 ? hdr.quoted_ports.source : new_port;
            hdr.quoted_ports.destination = is_outbound == 1 ? new_port : hdr.quoted_ports.destination;
            if (hdr.quoted_ipv4.protocol == PROTOCOL_UDP && hdr.quoted_ports.checksum != 0) {
                payload_sum.subtract({ hdr.quoted_ports.checksum });
                quoted_payload_sum.subtract({ hdr.quoted_ports.checksum, old_address, meta.port });
                quoted_payload_sum.add({ new_address, new_port });
                bit<16> sum = quoted_payload_sum.get();
                hdr.quoted_ports.checksum = sum == 0 ? 16w0xffff : sum;
                payload_sum.add({ hdr.quoted_ports.checksum });
            }
        }
        hdr.icmp.checksum = payload_sum.get();
    }

    apply {
        if (istd.parser_error != error.NoError)
            DROP(malformed)
        if (!hdr.ipv4.isValid())
            DROP(not_ipv4)
        if (hdr.ipv4.version != 4 || hdr.ipv4.ihl != 5 || hdr.ipv4.total_length < 20)
            DROP(malformed)
        links.apply();
        classify.apply(hdr, meta, is_outbound);
        if (meta.is_error == 1) {
            protocol = hdr.quoted_ipv4.protocol;
            local = is_outbound == 1 ? hdr.quoted_ipv4.destination : hdr.quoted_ipv4.source;
            remote = is_outbound == 1 ? hdr.quoted_ipv4.source : hdr.quoted_ipv4.destination;
        } else {
            protocol = hdr.ipv4.protocol;
            local = is_outbound == 1 ? hdr.ipv4.source : hdr.ipv4.destination;
            remote = is_outbound == 1 ? hdr.ipv4.destination : hdr.ipv4.source;
        }
        sessions.apply();
        if (meta.is_error == 1) {
            rewrite_error();
        } else {
            rewrite();
        }
    }
}

control pre(in headers_t hdr, inout metadata_t meta, in pna_pre_input_metadata_t istd,
            inout pna_pre_output_metadata_t ostd) {
    apply { }
}

control nat_deparser(packet_out packet, in headers_t hdr, in metadata_t meta,
                     in pna_main_output_metadata_t ostd) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.udp);
        packet.emit(hdr.tcp);
        packet.emit(hdr.icmp);
        packet.emit(hdr.echo);
        packet.emit(hdr.unused);
        packet.emit(hdr.quoted_ipv4);
        packet.emit(hdr.quoted_ports);
        packet.emit(hdr.quoted_echo);
    }
}

PNA_NIC(nat_parser(), pre(), nat(), nat_deparser()) main;
