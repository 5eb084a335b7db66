// SPDX-License-Identifier: Apache-2.0
//
// IPv6 subnets whose prefix ends within each 32-bit word of the address, and
// between two. A source that differs from the destination only after the
// prefix is on one link with it: hop limit 1 is unchanged. One different bit
// of the prefix means another subnet: hop limit 2 becomes 1, and 1 expires.
//
// Packets and expected packets were made with scapy, hashes with zlib.

#include "../../../programs/gateway/gateway.p4"
