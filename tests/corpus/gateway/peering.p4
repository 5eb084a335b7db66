// SPDX-License-Identifier: Apache-2.0
//
// Two peered VPCs: the packet leaves with the VNI of the destination VPC,
// and the answer with the other one. A VPC without peers has no route.
//
// Packets and expected packets were made with scapy, hashes with zlib.

#include "../../../programs/gateway/gateway.p4"
