//! Hosts with IPv4 alone, for machines with IPv6: behind a prefix, by the public addresses of the VPC's NAT.

use crate::fields::non_null;
use crate::ipv6_internet::ipv6_network;
use crate::spanned::WithPos;
use crate::values::Prefix;
use ipnet::Ipv6Net;
use schemars::JsonSchema;
use serde::Deserialize;
use std::net::Ipv6Addr;

/// The well-known prefix (RFC 6052, section 2.1).
const WELL_KNOWN_PREFIX: Ipv6Net = Ipv6Net::new_assert(Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 96);
/// Length of a prefix: an IPv4 address is behind it.
pub(crate) const NAT64_PREFIX_LEN: u8 = 96;
/// Addresses of machines of VPCs with NAT64 that have numbers (programs/gateway/nat64_source.p4).
pub(crate) const MAX_NAT64_MACHINES: usize = 1 << 20;
/// Number of the first of them in the pool of ports: those of subnets of IPv4 come before it.
pub const NAT64_FIRST_SUBSCRIBER: u32 = 1 << 24;

/// Hosts with IPv4 alone, for the machines of a VPC with IPv6 (RFC 6146).
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Nat64 {
    /// The prefix of 96 bits behind which machines find the addresses of hosts. Default: 64:ff9b::/96
    /// (RFC 6052).
    #[serde(default, deserialize_with = "non_null")]
    #[schemars(with = "WithPos<Prefix>")]
    pub prefix: Option<WithPos<Prefix>>,
}

impl Nat64 {
    /// Returns the prefix; `None` if it is of IPv4.
    pub fn network(&self) -> Option<Ipv6Net> {
        self.prefix.as_ref().map_or(Some(WELL_KNOWN_PREFIX), |prefix| ipv6_network(prefix.network()))
    }
}
