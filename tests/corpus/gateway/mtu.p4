// SPDX-License-Identifier: Apache-2.0
//
// A packet that exceeds the output's MTU is dropped with a reason: 1500 bytes of
// outer IP packet fit, 1501 don't; over IPv6 the outer header is 20 bytes longer.
//
// Packets and expected packets were made with scapy, hashes with zlib.

#include "../../../programs/gateway/gateway.p4"
