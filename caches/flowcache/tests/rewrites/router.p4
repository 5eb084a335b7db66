// SPDX-License-Identifier: Apache-2.0
//
// v1model router with checksums and IPv4-in-IPv4, for the lengths and sums of rewrites.

#include <core.p4>
#include <v1model.p4>

header ethernet_h { bit<48> destination; bit<48> source; bit<16> ether_type; }
header ipv4_h {
    bit<4> version; bit<4> ihl; bit<8> tos; bit<16> total_length;
    bit<16> identification; bit<16> fragment; bit<8> ttl; bit<8> protocol;
    bit<16> checksum; bit<32> source; bit<32> destination;
}
header udp_h { bit<16> source; bit<16> destination; bit<16> length; bit<16> checksum; }
struct headers_t { ethernet_h ethernet; ipv4_h outer; ipv4_h ipv4; udp_h udp; }
struct metadata_t { bit<32> tunnel; bit<16> watched; bit<8> drop_reason; }

parser pars(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) { 0x800: ipv4; default: accept; }
    }
    state ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.ihl, hdr.ipv4.protocol) { (5, 17): udp; default: accept; }
    }
    state udp { packet.extract(hdr.udp); transition accept; }
}

control check(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.ipv4.isValid(), { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.tos, hdr.ipv4.total_length,
            hdr.ipv4.identification, hdr.ipv4.fragment, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.source,
            hdr.ipv4.destination }, hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control ing(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    counter(16, CounterType.packets_and_bytes) ports;
    direct_counter(CounterType.packets_and_bytes) hits;

    action drop_it() { mark_to_drop(std); }
    action forward(bit<9> port, bit<48> mac) {
        std.egress_spec = port;
        hdr.ethernet.source = hdr.ethernet.destination;
        hdr.ethernet.destination = mac;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
        ports.count((bit<32>) port);
    }
    action encapsulate(bit<9> port, bit<48> mac, bit<32> remote) {
        std.egress_spec = port;
        hdr.ethernet.destination = mac;
        meta.tunnel = remote;
    }
    table routes {
        key = { hdr.ipv4.destination: lpm; }
        actions = { drop_it; forward; encapsulate; }
        default_action = drop_it();
        counters = hits;
        support_timeout = true;
        size = 64;
    }
    apply {
        if (!hdr.ipv4.isValid() || std.checksum_error == 1 || hdr.ipv4.ttl < 2) {
            mark_to_drop(std);
        } else if (hdr.udp.isValid() && hdr.udp.length + 20 != hdr.ipv4.total_length) {
            mark_to_drop(std);
        } else {
            routes.apply();
        }
    }
}

control eg(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        if (meta.tunnel != 0) {
            hdr.outer.setValid();
            hdr.outer.version = 4;
            hdr.outer.ihl = 5;
            hdr.outer.tos = hdr.ipv4.tos;
            hdr.outer.total_length = (bit<16>) std.packet_length + 6;
            hdr.outer.ttl = 64;
            hdr.outer.protocol = 4;
            hdr.outer.source = 0x0a000001;
            hdr.outer.destination = meta.tunnel;
            if (std.packet_length > 500) {
                mark_to_drop(std);
            }
        }
    }
}

control compute(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid(), { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.tos, hdr.ipv4.total_length,
            hdr.ipv4.identification, hdr.ipv4.fragment, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.source,
            hdr.ipv4.destination }, hdr.ipv4.checksum, HashAlgorithm.csum16);
        update_checksum(hdr.outer.isValid(), { hdr.outer.version, hdr.outer.ihl, hdr.outer.tos, hdr.outer.total_length,
            hdr.outer.identification, hdr.outer.fragment, hdr.outer.ttl, hdr.outer.protocol, hdr.outer.source,
            hdr.outer.destination }, hdr.outer.checksum, HashAlgorithm.csum16);
    }
}

control dep(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.outer);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.udp);
    }
}

V1Switch(pars(), check(), ing(), eg(), compute(), dep()) main;
