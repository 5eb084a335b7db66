// SPDX-License-Identifier: Apache-2.0
//
// SCTP, UDP-Lite and DCCP have TCP's port offsets, for list and hash (RFC 9260, RFC 3828, RFC 4340).
//
// Packets and expected packets were made with scapy, hashes with zlib.

#include "../../../programs/gateway/gateway.p4"
