// SPDX-License-Identifier: Apache-2.0
//
// RFC 6040, figure 4, all sixteen cases for both families: what the tunnel experienced goes into the
// inner packet, and that into the new outer header. The inner DSCP (10) stays, the outer one (46) is
// carried over.
//
// Packets and expected packets were made with scapy, hashes with zlib.

#include "../../../programs/gateway/gateway.p4"
