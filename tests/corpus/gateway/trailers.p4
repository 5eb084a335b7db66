// SPDX-License-Identifier: Apache-2.0
//
// Bytes after the outer packet (padding of a short frame, a check sequence that a network card left) are removed, so that a frame never
// exceeds its port's MTU; bytes after the inner packet and inside the tunnel are kept. Over both underlays, and from one to the other.
//
// Packets and expected packets were made with scapy, hashes with zlib.

#include "../../../programs/gateway/gateway.p4"
