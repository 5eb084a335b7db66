// SPDX-License-Identifier: Apache-2.0
//
// ICMP errors: their bytes for each cause and both families, the quotation, the source address, and
// the way back through the tunnel.
//
// Packets and expected packets were made in Python from the RFCs, hashes with zlib.

#include "../../../programs/gateway/gateway.p4"
