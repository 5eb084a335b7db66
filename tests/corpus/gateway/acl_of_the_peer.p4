// SPDX-License-Identifier: Apache-2.0
//
// Between peers, the list of the VPC that the packet goes to is asked by its own VPC number. IPv6.
//
// Packets and expected packets were made with scapy, hashes with zlib.

#include "../../../programs/gateway/gateway.p4"
