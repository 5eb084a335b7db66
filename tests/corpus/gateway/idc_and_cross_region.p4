// SPDX-License-Identifier: Apache-2.0
//
// Routes to a data centre and to another region: the remote end point,
// its VNI and its inner MAC, over IPv4 and IPv6. Packets that return with
// the VPC's own VNI are delivered. A route to a missing end point drops.
//
// Packets and expected packets were made with scapy, hashes with zlib.

#include "../../../programs/gateway/gateway.p4"
