// SPDX-License-Identifier: Apache-2.0
//
// A VM with a public address of its own: all protocols and fragments in both directions, with their
// checksums; ICMP errors; the lists of the VPC; what can't pass; other VMs of the VPC.
//
// Packets and expected packets were made with scapy, layer 4 and its checksums with struct, hashes with
// zlib.

#include "../../../programs/gateway/gateway.p4"
