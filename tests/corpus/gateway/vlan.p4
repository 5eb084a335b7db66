// SPDX-License-Identifier: Apache-2.0
//
// Uplinks with a VLAN tag: between tagged and untagged ports, other tags, lengths, ICMP errors, and
// packets for the host.
//
// Packets and expected packets were made in Python from the RFCs, hashes with zlib.

#include "../../../programs/gateway/gateway.p4"
