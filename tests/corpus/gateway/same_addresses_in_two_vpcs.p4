// SPDX-License-Identifier: Apache-2.0
//
// Two VPCs with the same addresses at the same time: the
// VNI decides, and no packet crosses from one to the other.
//
// Packets and expected packets were made with scapy, hashes with zlib.

#include "../../../programs/gateway/gateway.p4"
