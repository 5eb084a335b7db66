// SPDX-License-Identifier: Apache-2.0
//
// A gateway that isn't configured completely drops with a reason that says what is missing, and sends
// nothing half-rewritten.
//
// Packets and expected packets were made with scapy, hashes with zlib.

#include "../../../programs/gateway/gateway.p4"
