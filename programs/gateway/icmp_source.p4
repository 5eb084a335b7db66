// SPDX-License-Identifier: Apache-2.0
//
// Which address of the gateway sends an ICMP error? The gateway's address in the sender's subnet,
// as of any router (RFC 1812, section 4.3.2.4). A packet from outside of the region has no subnet
// here, so the gateway's address in the destination's subnet answers. A request for a MAC address is
// about the gateway's address in the subnet of the target.

#ifndef GATEWAY_ICMP_SOURCE_P4
#define GATEWAY_ICMP_SOURCE_P4

#include "metadata.p4"

/// The gateway in a subnet of a VPC.
struct gateway_address_t {
    bool   in_subnet;   // whether the address that was looked up is in a subnet of the VPC
    ipv4_t host_bits;   // IPv4: the bits of an address behind the subnet's prefix
    ipv4_t v4;
    ipv6_t v6;          // 0: none
}

control icmp_source_step(in headers_t hdr, inout metadata_t meta, inout gateway_address_t own) {
    ipv4_t address_v4;
    ipv6_t address_v6;

    /// The gateway's address in the subnet. `host_bits` has a 1 for each bit behind the prefix.
    action gateway_v4(ipv4_t gateway, ipv4_t host_bits) {
        own.in_subnet = true;
        own.host_bits = host_bits;
        own.v4 = gateway;
    }

    action gateway_v6(ipv6_t gateway) {
        own.in_subnet = true;
        own.v6 = gateway;
    }

    /// The address is in no subnet of the VPC: RFC 7600 reserves an address for this.
    action outside_v4() {
        own.v4 = 0xc0000008;   // 192.0.0.8
    }

    /// The address is in no subnet of the VPC. `gateway` is the gateway's own address over IPv6, or
    /// 0 if there is none.
    action outside_v6(ipv6_t gateway) {
        own.v6 = gateway;
    }

    /// One entry for each subnet of a VPC.
    table subnet_gateway_v4 {
        key = {
            meta.vpc:   exact @name("vpc");
            address_v4: lpm   @name("address") @format(IPV4_ADDRESS);
        }
        actions = { gateway_v4; @defaultonly outside_v4; }
        const default_action = outside_v4();
        size = 65536;
    }

    /// One entry for each subnet of a VPC. The control plane sets the default action.
    table subnet_gateway_v6 {
        key = {
            meta.vpc:   exact @name("vpc");
            address_v6: lpm   @name("address") @format(IPV6_ADDRESS);
        }
        actions = { gateway_v6; @defaultonly outside_v6; }
        default_action = outside_v6(0);
        size = 65536;
    }

    apply {
        meta.vpc = hdr.icmp_task.vpc;
        own.in_subnet = false;
        own.host_bits = 0;
        own.v4 = 0;
        own.v6 = 0;
        if (hdr.quoted_ipv4.isValid() || hdr.arp.isValid()) {
            address_v4 = hdr.quoted_ipv4.source;
            if (hdr.arp.isValid()) {
                address_v4 = hdr.arp.target;
            } else if (hdr.icmp_task.sender == (bit<2>) sender_t.remote) {
                address_v4 = hdr.quoted_ipv4.destination;
            }
            subnet_gateway_v4.apply();
        } else {
            address_v6 = hdr.quoted_ipv6.source;
            if (hdr.nd.isValid()) {
                address_v6 = hdr.nd.target;
            } else if (hdr.icmp_task.sender == (bit<2>) sender_t.remote) {
                address_v6 = hdr.quoted_ipv6.destination;
            }
            subnet_gateway_v6.apply();
        }
    }
}

#endif
