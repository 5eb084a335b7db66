// SPDX-License-Identifier: Apache-2.0
//
// ANT: from a pod to another node by policies of the namespace and of the cluster, within the node, from the tunnel; ARP.
//
// Packets and expected packets were made field by field outside of Terrace, by the headers' specifications.

#include "../../../programs/vswitch/ant/ant.p4"
