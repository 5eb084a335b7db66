// SPDX-License-Identifier: Apache-2.0
//
// OTL: control frames, bridged, routed in IPv4 and IPv6, filtered, denied, an unknown station.
//
// Packets and expected packets were made field by field outside of Terrace, from specifications.

#include "../../../programs/vswitch/otl/otl.p4"
