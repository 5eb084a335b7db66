// SPDX-License-Identifier: Apache-2.0
//
// A subnet is one link: between its VMs the TTL is unchanged, because protocols require 1 or 255 (RFC 4271,
// RFC 5082, RFC 5881), and a VM may address another's MAC. Between two subnets the gateway is a router.
// Frames to others, to groups and to all, and frames from groups, are dropped (RFC 1812, section 5.3.4).
//
// Packets and expected packets were made with scapy, hashes with zlib.

#include "../../../programs/gateway/gateway.p4"
