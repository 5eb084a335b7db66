// SPDX-License-Identifier: Apache-2.0
//
// IPv6 extension headers and authentication headers: packets pass with their bytes
// unchanged; ACL and hash use layer 4 after them (RFC 8200, section 4; RFC 7045, section
// 2.1). Headers beyond 64 bytes, in wrong order, and routing headers of type 0 are dropped.
//
// Packets and expected packets were made with scapy, hashes with zlib.

#include "../../../programs/gateway/gateway.p4"
