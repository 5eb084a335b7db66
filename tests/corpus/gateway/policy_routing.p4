// SPDX-License-Identifier: Apache-2.0
//
// The routing instance by inner source: the longest prefix wins, and what has no policy route uses the
// VPC's own instance.
//
// Packets and expected packets were made with scapy, hashes with zlib.

#include "../../../programs/gateway/gateway.p4"
