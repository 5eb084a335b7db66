// SPDX-License-Identifier: Apache-2.0
//
// ICMP errors: the buckets of VMs and VPCs, and other limits than the defaults.
//
// Packets and expected packets were made in Python from the RFCs, hashes with zlib.

#include "../../../programs/gateway/gateway.p4"
