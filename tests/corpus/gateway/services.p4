// SPDX-License-Identifier: Apache-2.0
//
// Services: the choice of a backend, both directions in a VPC and to the Internet, ICMP errors, ping and
// ARP, a backend that is a client, is down, or is missing, and what has no connection.
//
// Packets and expected packets were made with scapy, their checksums, too; hashes with zlib.

#include "../../../programs/gateway/gateway.p4"
