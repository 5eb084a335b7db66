// SPDX-License-Identifier: Apache-2.0
//
// Source NAT: UDP, TCP and ICMP in both directions, errors, time-outs, filtering, quotas.
//
// Packets and expected packets were made by Scapy, field by field. The expected ports follow from the
// definitions of CRC-32 and of `PortPool.take`.

#include "../../../programs/nat/nat.p4"
