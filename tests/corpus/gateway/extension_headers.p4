// SPDX-License-Identifier: Apache-2.0
//
// Extension headers of IPv6 and authentication headers: packets pass with their bytes as they are, and what the
// list and the hash see is layer 4 behind them (RFC 8200, section 4; RFC 7045, section 2.1). Headers behind 64
// bytes of them, in wrong order, and routing headers of type 0 are dropped.
//
// Packets and expected packets were made with scapy, hashes with zlib.

#include "../../../programs/gateway/gateway.p4"
