// SPDX-License-Identifier: Apache-2.0
//
// A path that carries less than its port limits the length of packets; one that carries more does
// not raise the port's limit.
//
// Packets and expected packets were made with scapy, hashes with zlib.

#include "../../../programs/gateway/gateway.p4"
