// SPDX-License-Identifier: Apache-2.0
//
// The firewall: allowed 5-tuples in each direction, and each reason to drop a packet.
//
// Packets and expected packets were made field by field, with checksums over all bytes (RFC 1071).

#include "../../../programs/middleboxes/firewall/firewall.p4"
