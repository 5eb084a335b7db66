// SPDX-License-Identifier: Apache-2.0
//
// The Trojan detector: the order of connections, reports, time-outs, full tables, and each reason to
// drop a packet. Each table has room for three hosts.
//
// Packets and expected packets were made field by field, with checksums over all bytes (RFC 1071).

#define HOSTS 3
#include "../../../programs/middleboxes/trojan_detector/trojan_detector.p4"
