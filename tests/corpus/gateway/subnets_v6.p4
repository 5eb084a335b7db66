// SPDX-License-Identifier: Apache-2.0
//
// Subnets of IPv6 whose prefix ends within each 32-bit word of the address, and between two. A
// source that differs from the destination behind the prefix alone is on one link with it: hop
// limit 1 stays. One bit of the prefix makes it another subnet's: hop limit 2 becomes 1, and 1
// expires.
//
// Packets and expected packets were made with scapy, hashes with zlib.

#include "../../../programs/gateway/gateway.p4"
