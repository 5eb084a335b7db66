// SPDX-License-Identifier: Apache-2.0
//
// Internet: the packet goes to the CPU as received. Blackhole: dropped, although
// a shorter prefix is local. An address of the subnet without a VM: dropped.
//
// Packets and expected packets were made with scapy, hashes with zlib.

#include "../../../programs/gateway/gateway.p4"
