// SPDX-License-Identifier: Apache-2.0
//
// ACLs: priority, ranges, ICMP type and code in place of ports, default of the VPC, both
// directions, and fragments: only the first has ports; later ones match rules for later fragments.
//
// Packets and expected packets were made with scapy, hashes with zlib.

#include "../../../programs/gateway/gateway.p4"
