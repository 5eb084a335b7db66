// SPDX-License-Identifier: Apache-2.0
//
// A VPC may refuse types of options and extension headers that its VMs send or that a peer sends to them.
//
// Packets and expected packets were made with scapy, hashes with zlib.

#include "../../../programs/gateway/gateway.p4"
