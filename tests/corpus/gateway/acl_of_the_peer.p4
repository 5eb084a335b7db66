// SPDX-License-Identifier: Apache-2.0
//
// Between peers, the list of the destination VPC is matched by its own VPC number. IPv6.
//
// Packets and expected packets were made with scapy, hashes with zlib.

#include "../../../programs/gateway/gateway.p4"
