// SPDX-License-Identifier: Apache-2.0
//
// The underlay of the sender and that of the receiver may differ: IPv4 to IPv6, IPv6 to IPv4, IPv6 to
// IPv6. The new outer IPv6 header has flow label and hop limit of its own; UDP checksums are 0. A hop
// limit of 1 on receipt is fine, as the packet has arrived.
//
// Packets and expected packets were made with scapy, hashes with zlib.

#include "../../../programs/gateway/gateway.p4"
