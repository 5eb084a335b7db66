// SPDX-License-Identifier: Apache-2.0
//
// SCTP, UDP-Lite and DCCP have their ports where TCP has them: for the list, and for the hash (RFC 9260, RFC 3828, RFC 4340).
//
// Packets and expected packets were made with scapy, hashes with zlib.

#include "../../../programs/gateway/gateway.p4"
