// SPDX-License-Identifier: Apache-2.0
//
// Bytes behind the outer packet (padding of a short frame, a check sequence that a network card left) don't leave, so that a frame is
// never longer than its port takes; bytes behind the inner packet and inside the tunnel's do. Over both underlays, and from one to the other.
//
// Packets and expected packets were made with scapy, hashes with zlib.

#include "../../../programs/gateway/gateway.p4"
