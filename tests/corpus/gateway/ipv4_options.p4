// SPDX-License-Identifier: Apache-2.0
//
// Options of IPv4: packets pass with them (RFC 7126), the checksum over all of the header is brought up to date, and what the
// list and the hash see is layer 4 behind them.
//
// Packets and expected packets were made with scapy, hashes with zlib.

#include "../../../programs/gateway/gateway.p4"
