// SPDX-License-Identifier: Apache-2.0
//
// OLS: port security, ACLs in both directions, a class, an answered ARP request, an answer to DHCP.
//
// Packets and expected packets were made field by field outside of Terrace, from specifications.

#include "../../../programs/vswitch/ols/ols.p4"
