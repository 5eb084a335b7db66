// SPDX-License-Identifier: Apache-2.0
//
// IPv4 options: packets keep them (RFC 7126), the checksum over the
// whole header is updated, and ACL and hash use layer 4 after them.
//
// Packets and expected packets were made with scapy, hashes with zlib.

#include "../../../programs/gateway/gateway.p4"
