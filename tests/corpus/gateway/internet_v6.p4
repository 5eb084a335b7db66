// SPDX-License-Identifier: Apache-2.0
//
// VPCs on the Internet over IPv6: with their own addresses and only answers, and with NPTv6 (RFC 6296);
// ICMPv6 errors and what they quote; the limit of TCP segments; sources and destinations that do not pass.
//
// Packets and expected packets were made with scapy, which computes the checksums of both.

#include "../../../programs/gateway/gateway.p4"
