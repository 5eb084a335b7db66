// SPDX-License-Identifier: Apache-2.0
//
// The underlay of the sender and that of the receiver may differ: IPv4 to IPv6, IPv6 to
// IPv4, IPv6 to IPv6. The new outer IPv6 header has its own flow label and hop limit; UDP
// checksums are 0. A received hop limit of 1 is allowed, because the packet has arrived.
//
// Packets and expected packets were made with scapy, hashes with zlib.

#include "../../../programs/gateway/gateway.p4"
