// SPDX-License-Identifier: Apache-2.0
//
// How is the local side translated? A session is a pair of entries, one for each direction
// (docs/decisions/0041-a-session-is-a-pair-in-one-table.md). The first packet from a VM takes a port
// and adds the pair; a packet from outside never does. Address and port of both sides are in the
// key, so mapping and filtering depend on both (RFC 4787, sections 4.1 and 5).
//
// A connection to a service is a pair, too. A packet of the client adds it, when it is looked up a second
// time, with the backend that was chosen in between (docs/decisions/0058-*).
// The key has the address of the service in both directions, and not the backend: so a connection can
// go to another backend if its own is down, and the answers of that one are found.

#ifndef GATEWAY_NAT_SESSION_P4
#define GATEWAY_NAT_SESSION_P4

#include "metadata.p4"
#include "nat_flow.p4"
#include "verdicts.p4"

/// Public addresses and VMs that the pool of ports can number: 2^24 of IPv4, and 2^20 of IPv6 behind them
/// (nat64_source.p4).
#define NAT_ADDRESSES 1024
#define NAT_SUBSCRIBERS 17825792
/// VPCs that can have services: all that have a number.
#define SERVICE_VPCS 1048576

// Expire time profiles. TABLES.md has the times.
const ExpireTimeProfileId_t NAT_UDP            = (ExpireTimeProfileId_t) 0;
const ExpireTimeProfileId_t NAT_ICMP           = (ExpireTimeProfileId_t) 1;
const ExpireTimeProfileId_t NAT_TCP_TRANSITORY = (ExpireTimeProfileId_t) 2;
const ExpireTimeProfileId_t NAT_TCP            = (ExpireTimeProfileId_t) 3;

/// Key of a session in one direction.
struct session_key_t {
    vpc_t   vpc;             // 0 for packets from the Internet
    bit<1>  is_outbound;
    bit<1>  in_vpc;          // of a service, from within its VPC
    bit<8>  protocol;
    ipv4_t  address;         // of the VM, or its number, or public, or of the service
    bit<16> port;
    ipv4_t  remote;
    bit<16> remote_port;
}

/// Parameters of `to_internet`.
struct to_internet_t {
    ipv4_t  address;
    bit<16> port;
}

/// Parameters of `to_vm` and `to_vm_v6`.
struct to_vm_t {
    vpc_t   vpc;
    vni_t   vni;
    ipv4_t  address;
    bit<16> port;
    bit<16> mss;
}

/// Parameters of `to_backend` and `from_backend`.
struct backend_of_session_t {
    ipv4_t  address;
    bit<16> port;
}

control nat_session_step(in headers_t hdr, inout metadata_t meta, inout nat_flow_t nat) {
    PortPool(NAT_ADDRESSES, NAT_SUBSCRIBERS, 3, 0) nat_ports;
    EntryQuota(SERVICE_VPCS)                       vpc_connections;
    ipv4_t  address;   // of the local side in the key
    bit<16> port;

    /// Restarts the idle time. An ICMP error does not (RFC 5508, section 4.4). A TCP connection is
    /// established with the answer to its SYN, until a FIN or RST. `answers`: the packet goes to the
    /// side that began the session.
    action keep_session(in bool answers) {
        if (nat.is_error) {
        } else if (nat.protocol == PROTOCOL_TCP) {
            bool closes = (hdr.l4_rest.flags & (TCP_FIN | TCP_RST)) != 0;
            bool opens = (hdr.l4_rest.flags & TCP_SYN) != 0 && answers;
            update_expire_info(true, closes || opens, closes ? NAT_TCP_TRANSITORY : NAT_TCP);
        } else {
            restart_expire_timer();
        }
    }

    /// A VM's packet leaves with this address and port.
    action to_internet(ipv4_t address, bit<16> port) {
        nat.new_address = address;
        nat.new_port = port;
        keep_session(false);
    }

    /// A packet from the Internet is for this VM. `mss` is the limit of TCP segments, in bytes.
    action to_vm(vpc_t vpc, vni_t vni, ipv4_t address, bit<16> port, bit<16> mss) {
        meta.vpc = vpc;
        meta.in_list = vpc;
        meta.to_vni = vni;
        meta.limits_mss = mss != NO_MSS_LIMIT;
        meta.mss_v4 = mss;
        nat.new_address = address;
        nat.new_port = port;
        keep_session(true);
    }

    /// A packet from the Internet is for the VM with this number, over IPv6 (nat64_arrival.p4).
    action to_vm_v6(vpc_t vpc, vni_t vni, bit<32> number, bit<16> port, bit<16> mss) {
        nat.kind = nat_kind_t.nat64;
        meta.vpc = vpc;
        meta.in_list = vpc;
        meta.to_vni = vni;
        meta.limits_mss = mss != NO_MSS_LIMIT;
        meta.mss_v6 = mss;
        nat.new_address = number;
        nat.new_port = port;
        keep_session(true);
    }

    /// A packet of a client is for this backend.
    action to_backend(ipv4_t address, bit<16> port) {
        nat.is_found = true;
        nat.backend = address;
        nat.backend_port = port;
        keep_session(false);
    }

    /// A packet of this backend is for the client.
    action from_backend(ipv4_t address, bit<16> port) {
        nat.is_found = true;
        nat.backend = address;
        nat.backend_port = port;
        keep_session(true);
    }

    /// The first packet to a service adds the connection in both directions, if there is a backend and
    /// the VPC may have one more: the Internet can send such packets from any address.
    action open_connection() {
        nat.backend = nat.chosen;
        nat.backend_port = nat.chosen_port;
        if (nat.refusal == drop_reason_t.none) {
            session_key_t answer = { nat.service_vpc, 1, nat.in_vpc, nat.protocol, nat.local,
                                     nat.local_port, nat.remote, nat.remote_port };
            if (!vpc_connections.take((bit<32>) nat.service_vpc, nat.max_connections)) {
                drop(meta, drop_reason_t.service_quota);
            }
            backend_of_session_t backend = { nat.chosen, nat.chosen_port };
            bool is_added = add_entry_pair("to_backend", backend, answer, "from_backend", backend,
                                           nat.protocol == PROTOCOL_UDP ? NAT_UDP : NAT_TCP_TRANSITORY);
            if (!is_added) {
                drop(meta, drop_reason_t.service_table_full);
            }
        }
    }

    /// The first packet of a session takes a port and adds the session in both directions.
    action open_nat_session() {
        if (!nat.opens || nat.is_outbound == 0) {
            if (nat.is_outbound == 1 && nat.protocol == PROTOCOL_TCP && !nat.is_error) {
                drop(meta, drop_reason_t.tcp_without_syn);
            }
            drop(meta, drop_reason_t.no_session);
        }
        bit<8> space = nat.protocol == PROTOCOL_UDP ? 8w0 : nat.protocol == PROTOCOL_TCP ? 8w1 : 8w2;
        PortLease_t lease = nat_ports.take(nat.first_number, nat.public_count, nat.subscriber,
                                           nat.max_blocks, space, meta.flow_hash);
        // Answers to this port would be taken for VXLAN. The session holds it, so the next call
        // gives another one.
        if (lease.port == UDP_PORT_VXLAN && space == 0) {
            lease = nat_ports.take(nat.first_number, nat.public_count, nat.subscriber,
                                   nat.max_blocks, space, meta.flow_hash);
        }
        if (lease.status == PortPoolStatus_t.EMPTY) {
            drop(meta, drop_reason_t.nat_no_ports);
        }
        if (lease.status == PortPoolStatus_t.QUOTA) {
            drop(meta, drop_reason_t.nat_quota);
        }
        if (lease.status == PortPoolStatus_t.INVALID) {
            drop(meta, drop_reason_t.no_nat);
        }
        nat.new_address = nat.first_public + (lease.address - nat.first_number);
        nat.new_port = lease.port;
        session_key_t answer = { 0, 0, 0, nat.protocol, nat.new_address, nat.new_port, nat.remote,
                                 nat.remote_port };
        to_internet_t out_translation = { nat.new_address, nat.new_port };
        to_vm_t in_translation = { meta.vpc, hdr.vxlan.vni, nat.local, nat.local_port,
                                   meta.limits_mss ? meta.mss_v4 : NO_MSS_LIMIT };
        ExpireTimeProfileId_t profile = space == 0 ? NAT_UDP : space == 1 ? NAT_TCP_TRANSITORY : NAT_ICMP;
        // Each addition has its own test: then it is clear that no port is held behind it, and packets need not
        // run one by one.
        if (nat.kind == nat_kind_t.nat64) {
            in_translation.mss = meta.limits_mss ? meta.mss_v6 : NO_MSS_LIMIT;
            bool is_added = add_entry_pair("to_internet", out_translation, answer, "to_vm_v6", in_translation,
                                           profile);
            if (!is_added) {
                drop(meta, drop_reason_t.nat_table_full);
            }
        } else {
            bool is_added = add_entry_pair("to_internet", out_translation, answer, "to_vm", in_translation,
                                           profile);
            if (!is_added) {
                drop(meta, drop_reason_t.nat_table_full);
            }
        }
    }

    action open_session() {
        if (nat.kind == nat_kind_t.service) {
            if (nat.is_chosen) {
                open_connection();
            }
        } else if (nat.kind == nat_kind_t.session || nat.kind == nat_kind_t.nat64) {
            open_nat_session();
        } else if (meta.nat == nat_t.outbound) {
            drop(meta, drop_reason_t.service_unasked);   // of a backend to the Internet
        }
    }

    table sessions {
        key = {
            nat.vpc:         exact @name("vpc");
            nat.is_outbound: exact @name("is_outbound");
            nat.in_vpc:      exact @name("in_vpc");
            nat.protocol:    exact @name("protocol");
            address:         exact @name("address");
            port:            exact @name("port");
            nat.remote:      exact @name("remote");
            nat.remote_port: exact @name("remote_port");
        }
        actions = {
            @tableonly to_internet; @tableonly to_vm; @tableonly to_vm_v6; @tableonly to_backend;
            @tableonly from_backend; @defaultonly open_session;
        }
        const default_action = open_session();
        add_on_miss = true;
        pna_idle_timeout = PNA_IdleTimeout_t.AUTO_DELETE;
        size = 4194304;
    }

    apply {
        address = nat.local;
        port = nat.local_port;
        if (nat.kind == nat_kind_t.answer) {
            address = nat.service;
            port = nat.service_port;
        }
        nat.is_found = false;
        nat.is_known = sessions.apply().hit;
    }
}

#endif
