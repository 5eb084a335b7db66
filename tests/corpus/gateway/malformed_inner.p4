// SPDX-License-Identifier: Apache-2.0
//
// What is wrong with the tenant's packet, each with its reason.
//
// Packets and expected packets were made with scapy, hashes with zlib.

#include "../../../programs/gateway/gateway.p4"
