// SPDX-License-Identifier: Apache-2.0
//
// IPv6 fragments: protocol and ports of the first one follow
// the fragment header, and all of them share a source port.
//
// Packets and expected packets were made with scapy, hashes with zlib.

#include "../../../programs/gateway/gateway.p4"
