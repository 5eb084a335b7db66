// SPDX-License-Identifier: Apache-2.0
//
// Packets through other VPCs match a list that the route names: those VPCs' rules, and the incoming
// ones of the VPC of delivery. A remote's packets that leave the VPC again match the VPC's own list.
//
// Packets and expected packets were made with scapy, hashes with zlib.

#include "../../../programs/gateway/gateway.p4"
