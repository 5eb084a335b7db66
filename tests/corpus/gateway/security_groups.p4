// SPDX-License-Identifier: Apache-2.0
//
// Security groups: rules of both VMs by prefix, group, port and ICMP type; answers, states of TCP, ICMP
// errors, idle times, changes of rules and of groups, peers, data centres, the Internet, and all that
// cannot belong to a flow.
//
// Packets and expected packets were made with scapy, hashes with zlib, ports by the rules of
// docs/reference/p4-extensions.md.

#include "../../../programs/gateway/gateway.p4"
