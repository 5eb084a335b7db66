// SPDX-License-Identifier: Apache-2.0
//
// The smallest load balancer: choice of a backend by addresses, its memory, and each reason to drop a
// packet. Its table has room for four pairs of addresses.
//
// Packets and expected packets were made field by field, with checksums over all bytes (RFC 1071).
// The expected backends follow from CRC-32.

#define ASSIGNMENTS 4
#include "../../../programs/middleboxes/minilb/minilb.p4"
