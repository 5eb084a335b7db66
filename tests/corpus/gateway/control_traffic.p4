// SPDX-License-Identifier: Apache-2.0
//
// Control and protocol traffic goes to the CPU, unchanged, before any other check.
//
// Packets and expected packets were made with scapy, hashes with zlib.

#include "../../../programs/gateway/gateway.p4"
