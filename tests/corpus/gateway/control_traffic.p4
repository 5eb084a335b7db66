// SPDX-License-Identifier: Apache-2.0
//
// Control and protocol traffic goes to the CPU, unchanged, before anything else looks at it.
//
// Packets and expected packets were made with scapy, hashes with zlib.

#include "../../../programs/gateway/gateway.p4"
