// SPDX-License-Identifier: Apache-2.0
//
// The same over inner IPv6, with an IPv4 underlay.
//
// Packets and expected packets were made with scapy, hashes with zlib.

#include "../../../programs/gateway/gateway.p4"
