// SPDX-License-Identifier: Apache-2.0
//
// From a VM to another VM of its VPC over inner IPv6, with an IPv4 underlay.
//
// Packets and expected packets were made with scapy, hashes with zlib.

#include "../../../programs/gateway/gateway.p4"
