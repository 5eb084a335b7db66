// SPDX-License-Identifier: Apache-2.0
//
// Routes to a data centre and to another region: the remote end point, its VNI and its inner MAC, over
// IPv4 and IPv6. What comes back with the VPC's own VNI is delivered. A route to an end point that
// isn't there drops.
//
// Packets and expected packets were made with scapy, hashes with zlib.

#include "../../../programs/gateway/gateway.p4"
