// SPDX-License-Identifier: Apache-2.0
//
// ICMP errors: the packets about which none is sent, with a test for each rule of icmp_never.p4.
//
// Packets and expected packets were made in Python from the RFCs, hashes with zlib.

#include "../../../programs/gateway/gateway.p4"
