// SPDX-License-Identifier: Apache-2.0
//
// Echo replies of the gateway's own addresses in subnets: bytes, checksums, and what is not
// answered.
//
// Packets and expected packets were made in Python from the RFCs, hashes with zlib.

#include "../../../programs/gateway/gateway.p4"
