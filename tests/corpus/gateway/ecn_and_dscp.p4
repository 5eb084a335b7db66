// SPDX-License-Identifier: Apache-2.0
//
// RFC 6040, figure 4, all sixteen cases for both families: the tunnel's congestion
// marks go into the inner packet, and its ECN into the new outer header. The inner
// DSCP (10) is unchanged, the outer one (46) is copied to the new outer header.
//
// Packets and expected packets were made with scapy, hashes with zlib.

#include "../../../programs/gateway/gateway.p4"
