// SPDX-License-Identifier: Apache-2.0
//
// Does a Trojan run on the host? A host inside is flagged if it opens an SSH connection, then a
// download, then IRC, in this order. First packets of connections are classified by their ports
// only. All packets are passed on; the controller gets one report for each flagged host.

#include <core.p4>
#include <pna.p4>

#include "../headers.p4"
#include "../parser.p4"
#include "../arrival.p4"
#include "../rewrite.p4"

/// Hosts of each of the three tables.
#ifndef HOSTS
#define HOSTS 65536
#endif

// Expire time profiles. README.md has the times.
const ExpireTimeProfileId_t SUSPECT = (ExpireTimeProfileId_t) 0;
const ExpireTimeProfileId_t FLAGGED = (ExpireTimeProfileId_t) 1;

/// Kind of a connection, by its destination port.
enum bit<2> connection_t {
    other    = 0,
    ssh      = 1,
    download = 2,
    irc      = 3
}

/// Servers of a host's first SSH connection and of the download after it.
struct servers_t {
    ipv4_t ssh;
    ipv4_t download;
}

/// Report to the controller.
struct report_t {
    ipv4_t host;
    ipv4_t ssh_server;
    ipv4_t download_server;
    ipv4_t irc_server;
}

control trojan_detector(inout headers_t hdr,
                        inout metadata_t meta,
                        in pna_main_input_metadata_t istd,
                        inout pna_main_output_metadata_t ostd) {
    /// Dropped packets, by the number of their reason.
    Counter<bit<64>, bit<8>>(16, PNA_CounterType_t.PACKETS) drops;
    /// Packets that a full table did not remember, by their kind.
    Counter<bit<64>, bit<2>>(4, PNA_CounterType_t.PACKETS) not_remembered;
    Digest<report_t>() reports;

    connection_t kind;
    bool      is_forgotten;
    servers_t servers;

    action ssh() {
        kind = connection_t.ssh;
    }

    action download() {
        kind = connection_t.download;
    }

    action irc() {
        kind = connection_t.irc;
    }

    action other() {
        kind = connection_t.other;
    }

    table kinds {
        key = { meta.destination_port: exact @name("port"); }
        actions = { @tableonly ssh; @tableonly download; @tableonly irc; @defaultonly other; }
        const default_action = other();
        size = 1024;
    }

    action used_ssh(ipv4_t server) {
        servers.ssh = server;
    }

    /// A miss of SSH adds the host; a miss of a download adds nothing.
    action add_ssh_host() {
        if (kind == connection_t.ssh)
            is_forgotten = !add_entry("used_ssh", hdr.ipv4.destination, SUSPECT);
    }

    table ssh_hosts {
        key = { hdr.ipv4.source: exact @name("host"); }
        actions = { @tableonly used_ssh; @defaultonly add_ssh_host; }
        const default_action = add_ssh_host();
        add_on_miss = true;
        pna_idle_timeout = PNA_IdleTimeout_t.AUTO_DELETE;
        size = HOSTS;
    }

    action used_download(ipv4_t ssh_server, ipv4_t server) {
        servers.ssh = ssh_server;
        servers.download = server;
    }

    /// A miss of a download after SSH adds the host; a miss of IRC adds nothing.
    action add_download_host() {
        if (kind == connection_t.download) {
            servers.download = hdr.ipv4.destination;
            is_forgotten = !add_entry("used_download", servers, SUSPECT);
        }
    }

    table download_hosts {
        key = { hdr.ipv4.source: exact @name("host"); }
        actions = { @tableonly used_download; @defaultonly add_download_host; }
        const default_action = add_download_host();
        add_on_miss = true;
        pna_idle_timeout = PNA_IdleTimeout_t.AUTO_DELETE;
        size = HOSTS;
    }

    action known(ipv4_t irc_server) { }

    /// IRC after both: the host is reported once, until its entry ends.
    action flag() {
        is_forgotten = !add_entry("known", hdr.ipv4.destination, FLAGGED);
        report_t report = { hdr.ipv4.source, servers.ssh, servers.download, hdr.ipv4.destination };
        reports.pack(report);
    }

    table flagged_hosts {
        key = { hdr.ipv4.source: exact @name("host"); }
        actions = { @tableonly known; @defaultonly flag; }
        const default_action = flag();
        add_on_miss = true;
        pna_idle_timeout = PNA_IdleTimeout_t.AUTO_DELETE;
        size = HOSTS;
    }

    apply {
        arrival.apply(hdr, meta, istd);
        kind = connection_t.other;
        is_forgotten = false;
        if (meta.drop_reason == drop_reason_t.none && meta.is_outbound == 1
            && hdr.tcp.isValid() && meta.is_first)
            kinds.apply();
        if (kind != connection_t.other) {
            // A host in `download_hosts` was in `ssh_hosts` before, so IRC needs one lookup only.
            bool used_ssh_before = kind == connection_t.irc;
            if (kind != connection_t.irc) {
                bool is_suspect = ssh_hosts.apply().hit;
                used_ssh_before = is_suspect && kind == connection_t.download;
            }
            if (used_ssh_before) {
                bool has_downloaded = download_hosts.apply().hit;
                if (has_downloaded && kind == connection_t.irc)
                    flagged_hosts.apply();
            }
        }
        if (is_forgotten)
            not_remembered.count((bit<2>) kind);
        if (meta.drop_reason == drop_reason_t.none) {
            decrement_ttl.apply(hdr);
        } else {
            drops.count((bit<8>) meta.drop_reason);
            drop_packet();
        }
    }
}

PNA_NIC(ports_parser(), pre(), trojan_detector(), ports_deparser()) main;
