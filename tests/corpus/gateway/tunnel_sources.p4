// SPDX-License-Identifier: Apache-2.0
//
// VXLAN is accepted only from servers and remotes, in frames to the port's own MAC. Further sources
// are prefixes; the longest determines their role. A VPC may accept packets only from some of them.
//
// Packets and expected packets were made with scapy, hashes with zlib.

#include "../../../programs/gateway/gateway.p4"
