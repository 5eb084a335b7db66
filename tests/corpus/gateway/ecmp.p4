// SPDX-License-Identifier: Apache-2.0
//
// Equal-cost paths: the bucket is bits 16 and 17 of the CRC-32 of source, destination, protocol and
// ports.
//
// Packets and expected packets were made with scapy, hashes with zlib.

#include "../../../programs/gateway/gateway.p4"
