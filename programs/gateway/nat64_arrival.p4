// SPDX-License-Identifier: Apache-2.0
//
// What does a VM get in the place of an IPv4 packet from the Internet? An IPv6 header in the place of the IPv4
// header (RFC 7915, section 4.1), with the host's address behind the prefix of the VPC (RFC 6052, section
// 2.2), and checksums of layer 4 that are corrected by the difference of both pseudo-headers (RFC 1624). From
// here on the packet is one over IPv6 to a VM.
//
// UDP without a checksum is dropped: over IPv6 it needs one (RFC 8200, section 8.1), and the payload is not
// read (RFC 6146, section 3.4; RFC 7915, section 4.5).

#ifndef GATEWAY_NAT64_ARRIVAL_P4
#define GATEWAY_NAT64_ARRIVAL_P4

#include "metadata.p4"
#include "nat64_error.p4"
#include "nat_flow.p4"
#include "verdicts.p4"

control nat64_arrival_step(inout headers_t hdr, inout metadata_t meta, in nat_flow_t nat) {
    nat64_error_to_vm_step() error_to_vm;
    InternetChecksum() sum;
    bit<16> new_checksum;
    bit<96> prefix;
    ipv6_t  host;
    ipv6_t  vm;

    /// The VM with the number, and the prefix of its VPC.
    action vm_with_number(bit<96> vpc_prefix, ipv6_t address) {
        prefix = vpc_prefix;
        vm = address;
    }

    /// The VM has gone, and its session has not ended yet.
    action unknown_vm() {
        drop(meta, drop_reason_t.unknown_vm);
    }

    /// One entry for each address of a VM: `nat64_source` in the other direction.
    table nat64_vm {
        key = {
            meta.vpc:        exact @name("vpc");
            nat.new_address: exact @name("number");
        }
        actions = { vm_with_number; @defaultonly unknown_vm; }
        const default_action = unknown_vm();
        size = 1048576;
    }

    apply {
        if (meta.fragment != fragment_t.whole) {
            drop(meta, drop_reason_t.nat64_fragment);
        }
        nat64_vm.apply();

        // ---- IPv6 ---------------------------------------------------------------------------------
        host = prefix ++ hdr.inner_ipv4.source;
        hdr.inner_ipv6.setValid();
        hdr.inner_ipv6.version = 6;
        hdr.inner_ipv6.dscp = hdr.inner_ipv4.dscp;
        hdr.inner_ipv6.ecn = hdr.inner_ipv4.ecn;
        hdr.inner_ipv6.flow_label = 0;
        hdr.inner_ipv6.payload_length = hdr.inner_ipv4.total_length - 20;
        hdr.inner_ipv6.next_header = hdr.inner_ipv4.protocol;
        hdr.inner_ipv6.hop_limit = hdr.inner_ipv4.ttl;   // `inner_rewrite` decrements it
        hdr.inner_ipv6.source = host;
        hdr.inner_ipv6.destination = vm;

        // ---- layer 4 ------------------------------------------------------------------------------
        if (nat.is_error) {
            error_to_vm.apply(hdr, meta, nat, prefix);
        } else if (nat.protocol == PROTOCOL_ICMP) {
            sum.subtract({ hdr.l4_icmp.checksum, hdr.l4_icmp.type, hdr.l4_icmp.code, hdr.l4_icmp.identifier });
            sum.add({ ICMPV6_ECHO_REPLY, 8w0, nat.new_port, host, vm, hdr.inner_ipv6.payload_length,
                      (bit<16>) PROTOCOL_ICMPV6 });
            hdr.l4_icmp.checksum = sum.get();
            hdr.l4_icmp.type = ICMPV6_ECHO_REPLY;
            hdr.l4_icmp.code = 0;
            hdr.l4_icmp.identifier = nat.new_port;
        } else {
            sum.subtract({ hdr.inner_ipv4.source, hdr.inner_ipv4.destination, nat.local_port });
            sum.add({ host, vm, nat.new_port });
            if (nat.protocol == PROTOCOL_TCP) {
                sum.subtract({ hdr.l4_rest.checksum });
                hdr.l4_rest.checksum = sum.get();
            } else {
                if (hdr.l4.checksum == 0) {
                    drop(meta, drop_reason_t.nat64_checksum);
                }
                sum.subtract({ hdr.l4.checksum });
                new_checksum = sum.get();
                if (new_checksum == 0) {
                    new_checksum = 0xffff;   // RFC 8200, section 8.1
                }
                hdr.l4.checksum = new_checksum;
            }
            hdr.l4.destination = nat.new_port;
            meta.l4_destination = nat.new_port;
        }
        if (hdr.l4_icmp.isValid()) {
            hdr.inner_ipv6.next_header = PROTOCOL_ICMPV6;
            meta.protocol = PROTOCOL_ICMPV6;
            meta.l4_source = (bit<16>) hdr.l4_icmp.type;
            meta.l4_destination = (bit<16>) hdr.l4_icmp.code;
        }
        hdr.outer_udp.length = hdr.inner_ipv6.payload_length + 70;   // 8 UDP, 8 VXLAN, 14 Ethernet, 40 IP
        hdr.inner_ethernet.ether_type = ETHERTYPE_IPV6;
        hdr.inner_ipv4.setInvalid();
        nat64_passed.count(1);
    }
}

#endif
