// SPDX-License-Identifier: Apache-2.0
//
// PSC: routed, switched, untagged, denied, and what lets no packet pass without an entry.
//
// Packets and expected packets were made field by field outside of Terrace, by the headers' specifications.

#include "../../../programs/vswitch/psc/psc.p4"
