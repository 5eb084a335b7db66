// SPDX-License-Identifier: Apache-2.0
//
// OFD: bridged, routed, multicast, out of an MPLS tunnel, switched by label, denied.
//
// Packets and expected packets were made field by field outside of Terrace, from specifications.

#include "../../../programs/vswitch/ofd/ofd.p4"
