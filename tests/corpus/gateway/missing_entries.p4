// SPDX-License-Identifier: Apache-2.0
//
// An incompletely configured gateway drops with a reason that
// names the missing entry, and sends no partly rewritten packet.
//
// Packets and expected packets were made with scapy, hashes with zlib.

#include "../../../programs/gateway/gateway.p4"
