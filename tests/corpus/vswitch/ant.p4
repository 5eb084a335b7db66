// SPDX-License-Identifier: Apache-2.0
//
// ANT: from a pod to another node by namespace and cluster policies, within the node, from the tunnel; ARP.
//
// Packets and expected packets were made field by field outside of Terrace, from specifications.

#include "../../../programs/vswitch/ant/ant.p4"
