// SPDX-License-Identifier: Apache-2.0
//
// The MSS of packets that open TCP connections: lowered at each position of the options, with the
// checksum; left alone in other packets, in VPCs without a limit, and where options break the format.
//
// Packets and expected packets were made in Python from the RFCs, hashes with zlib.

#include "../../../programs/gateway/gateway.p4"
