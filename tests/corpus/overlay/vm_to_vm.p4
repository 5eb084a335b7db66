// SPDX-License-Identifier: Apache-2.0
//
// The overlay: local and peer routes, the longest prefix, rewritten fields, and drops.
//
// Packets and expected packets were made field by field outside of Terrace, by the headers' RFCs.

#include "../../../programs/overlay/overlay.p4"
