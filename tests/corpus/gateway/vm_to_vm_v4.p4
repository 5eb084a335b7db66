// SPDX-License-Identifier: Apache-2.0
//
// From a VM to another VM of its VPC: TCP, UDP and ICMP over IPv4;
// the VNI is unchanged, outer and inner headers are rewritten.
//
// Packets and expected packets were made with scapy, hashes with zlib.

#include "../../../programs/gateway/gateway.p4"
