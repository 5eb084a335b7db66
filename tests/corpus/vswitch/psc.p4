// SPDX-License-Identifier: Apache-2.0
//
// PSC: routed, switched, untagged, denied, and tables that pass no packet without an entry.
//
// Packets and expected packets were made field by field outside of Terrace, from specifications.

#include "../../../programs/vswitch/psc/psc.p4"
