// SPDX-License-Identifier: Apache-2.0
//
// VXLAN is taken from servers and remotes alone, in frames to the port's own MAC. Further sources are prefixes, of which the longest
// says what they are. A VPC may take its packets from some of them only.
//
// Packets and expected packets were made with scapy, hashes with zlib.

#include "../../../programs/gateway/gateway.p4"
