// SPDX-License-Identifier: Apache-2.0
//
// The gateway's MAC address for VMs that ask for it, by ARP and by neighbour discovery: the answers,
// and each request that is not answered with its reason.
//
// Packets and expected packets were made in Python from the RFCs, hashes with zlib.

#include "../../../programs/gateway/gateway.p4"
