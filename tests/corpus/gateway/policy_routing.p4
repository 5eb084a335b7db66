// SPDX-License-Identifier: Apache-2.0
//
// The routing instance by inner source: the longest prefix wins;
// packets without a policy route use the VPC's own instance.
//
// Packets and expected packets were made with scapy, hashes with zlib.

#include "../../../programs/gateway/gateway.p4"
