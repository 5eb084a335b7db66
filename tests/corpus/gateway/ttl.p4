// SPDX-License-Identifier: Apache-2.0
//
// The gateway is a hop: TTL and hop limit 1 and 0 expire, 2 becomes 1. The outer TTL is ignored.
//
// Packets and expected packets were made with scapy, hashes with zlib.

#include "../../../programs/gateway/gateway.p4"
