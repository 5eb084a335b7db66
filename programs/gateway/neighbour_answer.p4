// SPDX-License-Identifier: Apache-2.0
//
// Is the request for the gateway's MAC address valid, and what is the answer? `inner_bytes` is the
// length of the answer after its Ethernet header. Its MAC address is written last, by
// `neighbour_mac`, because `encap` looks it up.

#ifndef GATEWAY_NEIGHBOUR_ANSWER_P4
#define GATEWAY_NEIGHBOUR_ANSWER_P4

#include "icmp_source.p4"
#include "metadata.p4"
#include "verdicts.p4"

/// ff02::1 and the first 104 bits of solicited-node groups (RFC 4291, section 2.7.1).
const ipv6_t    ALL_NODES       = 0xff020000000000000000000000000001;
const bit<104>  SOLICITED_NODES = 0xff0200000000000000000001ff;

/// Flags of an advertisement: router, solicited, override (RFC 4861, section 4.4).
const bit<32> ADVERTISED_TO_ASKER = 0xe0000000;
const bit<32> ADVERTISED_TO_ALL   = 0xa0000000;

const bit<8> ND_SOURCE_MAC = 1;
const bit<8> ND_TARGET_MAC = 2;

control neighbour_answer_step(inout headers_t hdr, inout metadata_t meta,
                              in pna_main_input_metadata_t istd, in gateway_address_t own,
                              out bit<16> inner_bytes) {
    InternetChecksum() sum;
    ipv4_t  asker_v4;
    ipv6_t  asker_v6;
    bool    valid;
    bit<16> options;   // valid ones, in units of 8 bytes
    bit<16> at;        // where the next option starts
    bool    has_source_mac;

    apply {
        meta.far_mac = hdr.inner_ethernet.destination;
        if (istd.parser_error != error.NoError) {
            drop(meta, drop_reason_t.neighbour_invalid);
        }
        if (hdr.arp.isValid()) {
            if (hdr.arp.hardware != 1 || hdr.arp.protocol != ETHERTYPE_IPV4
                || hdr.arp.hardware_length != 6 || hdr.arp.protocol_length != 4
                || hdr.arp.operation != 1) {
                drop(meta, drop_reason_t.neighbour_invalid);
            }
            if (!own.in_subnet || hdr.arp.target != own.v4) {
                drop(meta, drop_reason_t.neighbour_other);
            }
            // A gratuitous request: the VM announces this address as its own (RFC 5227, section 3).
            if (hdr.arp.sender == hdr.arp.target) {
                drop(meta, drop_reason_t.neighbour_conflict);
            }
            asker_v4 = hdr.arp.sender;
            hdr.arp.operation = 2;
            hdr.arp.target_mac = hdr.arp.sender_mac;
            hdr.arp.sender = hdr.arp.target;
            hdr.arp.target = asker_v4;
            inner_bytes = 28;
        } else if (hdr.nd.isValid()) {
            // RFC 4861, section 7.1.1.
            if (hdr.inner_ipv6.hop_limit != 255) {
                drop(meta, drop_reason_t.nd_hop_limit);
            }
            options = 0;
            sum.add({ hdr.inner_ipv6.source, hdr.inner_ipv6.destination,
                      hdr.inner_ipv6.payload_length, (bit<16>) PROTOCOL_ICMPV6 });
            sum.add({ hdr.icmp.type, hdr.icmp.code, hdr.icmp.checksum, hdr.icmp.rest, hdr.nd.target });
            if (hdr.nd_option_0.isValid()) {
                options = 1;
                sum.add({ hdr.nd_option_0.type, hdr.nd_option_0.length, hdr.nd_option_0.value });
            }
            if (hdr.nd_option_1.isValid()) {
                options = 2;
                sum.add({ hdr.nd_option_1.type, hdr.nd_option_1.length, hdr.nd_option_1.value });
            }
            if (hdr.nd_option_2.isValid()) {
                options = 3;
                sum.add({ hdr.nd_option_2.type, hdr.nd_option_2.length, hdr.nd_option_2.value });
            }
            if (hdr.nd_option_3.isValid()) {
                options = 4;
                sum.add({ hdr.nd_option_3.type, hdr.nd_option_3.length, hdr.nd_option_3.value });
            }
            valid = hdr.icmp.code == 0 && hdr.nd.target[127:120] != 0xff
                 && hdr.inner_ipv6.payload_length == 24 + 8 * options;

            // Each option has a length other than 0, and the last one ends with the message.
            at = 0;
            has_source_mac = false;
            if (options > 0) {
                valid = valid && hdr.nd_option_0.length != 0;
                has_source_mac = hdr.nd_option_0.type == ND_SOURCE_MAC;
                at = (bit<16>) hdr.nd_option_0.length;
            }
            if (options > 1 && at == 1) {
                valid = valid && hdr.nd_option_1.length != 0;
                has_source_mac = has_source_mac || hdr.nd_option_1.type == ND_SOURCE_MAC;
                at = 1 + (bit<16>) hdr.nd_option_1.length;
            }
            if (options > 2 && at == 2) {
                valid = valid && hdr.nd_option_2.length != 0;
                has_source_mac = has_source_mac || hdr.nd_option_2.type == ND_SOURCE_MAC;
                at = 2 + (bit<16>) hdr.nd_option_2.length;
            }
            if (options > 3 && at == 3) {
                valid = valid && hdr.nd_option_3.length != 0;
                has_source_mac = has_source_mac || hdr.nd_option_3.type == ND_SOURCE_MAC;
                at = 3 + (bit<16>) hdr.nd_option_3.length;
            }
            valid = valid && at == options;
            // A VM that looks whether its address is free (RFC 4862, section 5.4.2).
            if (hdr.inner_ipv6.source == 0) {
                valid = valid && !has_source_mac
                     && hdr.inner_ipv6.destination[127:24] == SOLICITED_NODES;
            }
            if (!valid) {
                drop(meta, drop_reason_t.neighbour_invalid);
            }
            if (sum.get() != 0) {
                drop(meta, drop_reason_t.neighbour_checksum);
            }
            if (!own.in_subnet || hdr.nd.target != own.v6) {
                drop(meta, drop_reason_t.neighbour_other);
            }

            asker_v6 = hdr.inner_ipv6.source;
            hdr.icmp.rest = ADVERTISED_TO_ASKER;
            if (asker_v6 == 0) {
                asker_v6 = ALL_NODES;   // RFC 4861, section 7.2.4
                hdr.icmp.rest = ADVERTISED_TO_ALL;
            }
            hdr.inner_ipv6.source = hdr.nd.target;
            hdr.inner_ipv6.destination = asker_v6;
            hdr.inner_ipv6.ecn = ecn_t.not_ect;
            hdr.inner_ipv6.payload_length = 32;
            hdr.icmp.type = ND_ADVERTISEMENT;
            hdr.nd_option_0.setValid();
            hdr.nd_option_0.type = ND_TARGET_MAC;
            hdr.nd_option_0.length = 1;
            hdr.nd_option_1.setInvalid();
            hdr.nd_option_2.setInvalid();
            hdr.nd_option_3.setInvalid();
            meta.protocol = PROTOCOL_ICMPV6;
            inner_bytes = 72;
        } else {
            drop(meta, drop_reason_t.gateway_closed);
        }
    }
}

/// Writes the gateway's MAC address, which is the source of the frame now, into the answer. A request
/// in a frame to the MAC address of another is not answered.
control neighbour_mac_step(inout headers_t hdr, inout metadata_t meta) {
    InternetChecksum() sum;

    apply {
        if (hdr.arp.isValid() || hdr.nd.isValid()) {
            if (meta.far_mac[40:40] == 0 && meta.far_mac != hdr.inner_ethernet.source) {
                drop(meta, drop_reason_t.inner_other_mac);
            }
            if (hdr.arp.isValid()) {
                hdr.arp.sender_mac = hdr.inner_ethernet.source;
            } else {
                hdr.nd_option_0.value = hdr.inner_ethernet.source;
                sum.add({ hdr.inner_ipv6.source, hdr.inner_ipv6.destination,
                          hdr.inner_ipv6.payload_length, (bit<16>) PROTOCOL_ICMPV6 });
                sum.add({ hdr.icmp.type, hdr.icmp.code, hdr.icmp.rest, hdr.nd.target });
                sum.add({ hdr.nd_option_0.type, hdr.nd_option_0.length, hdr.nd_option_0.value });
                hdr.icmp.checksum = sum.get();
            }
            icmp_sent.count((bit<8>) icmp_cause_t.neighbour);
        }
    }
}

#endif
