// SPDX-License-Identifier: Apache-2.0
//
// The transparent proxy: TCP to the configured ports, all other packets, and each reason to drop one.
//
// Packets and expected packets were made field by field, with checksums over all bytes (RFC 1071).

#include "../../../programs/middleboxes/proxy/proxy.p4"
