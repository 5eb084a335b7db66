// SPDX-License-Identifier: Apache-2.0
//
// Two peered VPCs: the packet leaves with the VNI of the VPC that it goes to, and the answer with the
// other one. A VPC that peers with nobody has no route.
//
// Packets and expected packets were made with scapy, hashes with zlib.

#include "../../../programs/gateway/gateway.p4"
