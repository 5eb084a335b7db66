// SPDX-License-Identifier: Apache-2.0
//
// Errors in the tenant's packet, each with its drop reason.
//
// Packets and expected packets were made with scapy, hashes with zlib.

#include "../../../programs/gateway/gateway.p4"
