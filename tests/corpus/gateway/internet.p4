// SPDX-License-Identifier: Apache-2.0
//
// A VPC with a NAT: packets to the Internet and answers, ICMP errors in both directions, filtering,
// TCP's first packet, quotas, idle times, lists, the MTU, and all that is never translated.
//
// Packets and expected packets were made with scapy, hashes with zlib, ports by the rules of
// docs/reference/p4-extensions.md.

#include "../../../programs/gateway/gateway.p4"
