// SPDX-License-Identifier: Apache-2.0
//
// A VPC may refuse kinds of options and extension headers: of what its VMs send, and of what is sent to them by a peer.
//
// Packets and expected packets were made with scapy, hashes with zlib.

#include "../../../programs/gateway/gateway.p4"
