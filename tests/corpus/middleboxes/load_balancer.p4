// SPDX-License-Identifier: Apache-2.0
//
// The load balancer: choice of a backend, translation in both directions, time-outs, and each reason
// to drop a packet.
//
// Packets and expected packets were made field by field, with checksums over all bytes (RFC 1071).
// The expected backends follow from CRC-32.

#include "../../../programs/middleboxes/load_balancer/load_balancer.p4"
