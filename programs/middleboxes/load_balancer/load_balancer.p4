// SPDX-License-Identifier: Apache-2.0
//
// Which backend serves the connection? A load balancer of layer 4: the first packet of a connection
// chooses a backend by a hash, and the connection keeps it. The destination address of requests and
// the source address of answers are translated. README.md has the tables.

#include <core.p4>
#include <pna.p4>
#include <terrace.p4>

#include "../headers.p4"
#include "../parser.p4"
#include "../arrival.p4"
#include "../rewrite.p4"

// Expire time profiles. README.md has the times.
const ExpireTimeProfileId_t UDP_CONNECTION  = (ExpireTimeProfileId_t) 0;
const ExpireTimeProfileId_t TCP_TRANSITORY  = (ExpireTimeProfileId_t) 1;
const ExpireTimeProfileId_t TCP_ESTABLISHED = (ExpireTimeProfileId_t) 2;

/// Key of a connection in one direction.
struct connection_key_t {
    bit<1>  is_outbound;
    bit<8>  protocol;
    ipv4_t  client;
    bit<16> client_port;
    ipv4_t  address;         // of the service, or of the backend
    bit<16> port;
}

/// Backend of a connection, and the change of the sum over its packets.
struct backend_t {
    ipv4_t  address;
    mac_t   mac;
    bit<16> difference;
}

/// Service that the client sees, and the change of the sum over answers.
struct service_t {
    ipv4_t  address;
    bit<16> difference;
}

control load_balancer(inout headers_t hdr,
                      inout metadata_t meta,
                      in pna_main_input_metadata_t istd,
                      inout pna_main_output_metadata_t ostd) {
    /// Dropped packets, by the number of their reason.
    Counter<bit<64>, bit<8>>(16, PNA_CounterType_t.PACKETS) drops;
    Hash<bit<16>>(PNA_HashAlgorithm_t.CRC32) flow_hash;

    ipv4_t  client;
    bit<16> client_port;
    ipv4_t  address;
    bit<16> port;
    bit<16> group;
    bit<16> last_bucket;
    bit<16> bucket;
    ipv4_t  backend_address;
    mac_t   backend_mac;
    ipv4_t  new_address;
    bit<16> difference;      // by which the sum over the packet changes
    drop_reason_t refusal;   // reason against a new connection

    /// A virtual address. Its group has a power of two of buckets, because a switch can take bits
    /// of a hash but cannot divide; `last` is their number minus 1.
    action service(bit<16> group_number, bit<16> last) {
        group = group_number;
        last_bucket = last;
    }

    table services {
        key = {
            hdr.ipv4.destination:  exact @name("address");
            meta.destination_port: exact @name("port");
            hdr.ipv4.protocol:     exact @name("protocol");
        }
        actions = { @tableonly service; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 4096;
    }

    action backend(ipv4_t to, mac_t mac) {
        backend_address = to;
        backend_mac = mac;
        refusal = drop_reason_t.none;
    }

    action no_backend() {
        refusal = drop_reason_t.no_backend;
    }

    table backends {
        key = { group: exact @name("group"); bucket: exact @name("bucket"); }
        actions = { @tableonly backend; @defaultonly no_backend; }
        const default_action = no_backend();
        size = 65536;
    }

    /// Restarts the idle time of a connection. TCP is established with the answer to its SYN, until
    /// a FIN or RST.
    action restart_idle_time() {
        if (hdr.tcp.isValid()) {
            bool closes = hdr.tcp.fin == 1 || hdr.tcp.rst == 1;
            bool opens = hdr.tcp.syn == 1 && meta.is_outbound == 1;
            update_expire_info(true, closes || opens, closes ? TCP_TRANSITORY : TCP_ESTABLISHED);
        } else {
            restart_expire_timer();
        }
    }

    /// A packet of the client.
    action to_backend(ipv4_t to, mac_t mac, bit<16> sum_change) {
        restart_idle_time();
        new_address = to;
        difference = sum_change;
        hdr.ethernet.destination = mac;
    }

    /// An answer: the client sees the address of the service.
    action to_client(ipv4_t from, bit<16> sum_change) {
        restart_idle_time();
        new_address = from;
        difference = sum_change;
    }

    /// The first packet of a connection adds it in both directions.
    action open() {
        if (refusal != drop_reason_t.none) {
            meta.drop_reason = refusal;
        } else {
            new_address = backend_address;
            hdr.ethernet.destination = backend_mac;
            difference = sum_difference(address, port, backend_address, port);
            backend_t chosen = { backend_address, backend_mac, difference };
            service_t asked = { address, ~difference };
            connection_key_t answer = { 1, hdr.ipv4.protocol, client, client_port,
                                        backend_address, port };
            bool is_added = add_entry_pair("to_backend", chosen, answer, "to_client", asked,
                                           hdr.tcp.isValid() ? TCP_TRANSITORY : UDP_CONNECTION);
            if (!is_added)
                meta.drop_reason = drop_reason_t.table_full;
        }
    }

    table connections {
        key = {
            meta.is_outbound:  exact @name("is_outbound");
            hdr.ipv4.protocol: exact @name("protocol");
            client:            exact @name("client");
            client_port:       exact @name("client_port");
            address:           exact @name("address");
            port:              exact @name("port");
        }
        actions = { @tableonly to_backend; @tableonly to_client; @defaultonly open; }
        const default_action = open();
        add_on_miss = true;
        pna_idle_timeout = PNA_IdleTimeout_t.AUTO_DELETE;
        size = 1048576;
    }

    action choose_bucket() {
        bucket = flow_hash.get_hash({ hdr.ipv4.protocol, client, client_port, address, port });
        bucket = bucket & last_bucket;
    }

    apply {
        arrival.apply(hdr, meta, istd);
        if (meta.drop_reason == drop_reason_t.none) {
            if (meta.is_outbound == 1) {
                client = hdr.ipv4.destination;
                client_port = meta.destination_port;
                address = hdr.ipv4.source;
                port = meta.source_port;
                refusal = drop_reason_t.no_connection;
            } else {
                client = hdr.ipv4.source;
                client_port = meta.source_port;
                address = hdr.ipv4.destination;
                port = meta.destination_port;
                // Nothing is dropped here, because a connection keeps its backend even if the
                // entries of its service and bucket are gone.
                if (!services.apply().hit) {
                    refusal = drop_reason_t.no_service;
                } else if (!meta.is_first) {
                    refusal = drop_reason_t.tcp_without_syn;
                } else {
                    choose_bucket();
                    backends.apply();
                }
            }
            connections.apply();
        }
        if (meta.drop_reason == drop_reason_t.none) {
            translate.apply(hdr, meta.is_outbound, new_address, port, difference);
        } else {
            drops.count((bit<8>) meta.drop_reason);
            drop_packet();
        }
    }
}

PNA_NIC(ports_parser(), pre(), load_balancer(), ports_deparser()) main;
