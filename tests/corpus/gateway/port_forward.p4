// SPDX-License-Identifier: Apache-2.0
//
// Ports of public addresses that stand for ports of VMs, with and without a NAT: both directions, ICMP
// errors, sessions of the same VM, and what is not forwarded.
//
// Packets and expected packets were made with scapy, layer 4 and its checksums with struct, hashes with
// zlib.

#include "../../../programs/gateway/gateway.p4"
