// SPDX-License-Identifier: Apache-2.0
//
// What passes through other VPCs is asked for by a list that the route names: those VPCs' rules, and the incoming ones of the VPC
// that it is delivered in. A remote's packets that leave the VPC again are asked for by the VPC's own list.
//
// Packets and expected packets were made with scapy, hashes with zlib.

#include "../../../programs/gateway/gateway.p4"
