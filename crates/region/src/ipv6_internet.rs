//! The way of a VPC to the Internet over IPv6: its own prefixes, or others in their place (NPTv6).

use crate::fields::{optional_list, present_list};
use crate::spanned::{SourcePos, WithPos};
use crate::values::Prefix;
use ipnet::{IpNet, Ipv6Net};
use schemars::JsonSchema;
use serde::Deserialize;
use std::net::Ipv6Addr;

/// Longest prefix that NPTv6 translates: the interface identifier is behind it.
pub(crate) const MAX_TRANSLATED_LEN: u8 = 64;
/// Longest prefix for which NPTv6 changes the word behind it (RFC 6296, section 3.4).
const MAX_LEN_WITH_SUBNET_WORD: u8 = 48;

/// Returns a prefix of IPv6; `None` for one of IPv4.
pub(crate) fn ipv6_network(network: IpNet) -> Option<Ipv6Net> {
    match network {
        IpNet::V4(_) => None,
        IpNet::V6(network) => Some(network),
    }
}

/// Packets from the Internet that come in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Inbound {
    /// Answers to flows of machines, and ICMPv6 errors about them.
    #[default]
    Answers,
    /// Everything that lists and security groups permit.
    All,
}

/// The way of a VPC to the Internet over IPv6.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ipv6Internet {
    /// Packets that come in to machines without security groups: only `answers` to theirs (the default),
    /// or `all`. Of machines with groups, the rules of the groups decide.
    #[serde(default)]
    pub inbound: Inbound,
    /// The VPC's subnets that use it. Default: all of IPv6.
    #[serde(default, deserialize_with = "present_list")]
    #[schemars(with = "Vec<WithPos<Prefix>>")]
    pub subnets: Option<Vec<WithPos<Prefix>>>,
    /// Prefixes with others in their place on the Internet (NPTv6, RFC 6296). Default: none, machines
    /// have their own addresses there.
    #[serde(default, deserialize_with = "optional_list")]
    #[schemars(with = "Option<Vec<PrefixTranslation>>")]
    pub translate: Vec<PrefixTranslation>,
}

/// A prefix of a VPC, and the one in its place on the Internet.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PrefixTranslation {
    /// The prefix in the VPC, of at most 64 bits. It contains subnets of the VPC.
    pub inside: WithPos<Prefix>,
    /// The prefix on the Internet, of the same length.
    pub outside: WithPos<Prefix>,
}

/// The numbers by which a router puts one prefix in the place of another one (RFC 6296).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Npt {
    /// The new prefix: the first 64 bits of an address.
    pub prefix: u64,
    /// A 1 for each bit of it.
    pub mask: u64,
    /// The number that is added, in ones' complement, to one word of 16 bits.
    pub adjustment: u16,
    /// Whether that word is the one behind the prefix, and not in the interface identifier.
    pub in_subnet: bool,
}

/// Returns the sum of 16-bit words in ones' complement.
fn ones_complement_sum(words: impl IntoIterator<Item = u16>) -> u16 {
    words.into_iter().fold(0, |sum: u16, word| {
        let (sum, carry) = sum.overflowing_add(word);
        sum + u16::from(carry)
    })
}

impl Npt {
    /// Returns the translation of addresses of `from` to those of `to`, which has the same length.
    pub fn new(from: Ipv6Net, to: Ipv6Net) -> Npt {
        let sum = |prefix: Ipv6Net| ones_complement_sum(prefix.network().segments());
        let bits = |address: Ipv6Addr| (u128::from(address) >> 64) as u64;
        Npt {
            prefix: bits(to.network()),
            mask: bits(to.netmask()),
            // The difference: a number and its complement are opposites.
            adjustment: ones_complement_sum([sum(from), !sum(to)]),
            in_subnet: to.prefix_len() <= MAX_LEN_WITH_SUBNET_WORD,
        }
    }
}

impl PrefixTranslation {
    /// Returns both prefixes, if they are of IPv6.
    pub fn networks(&self) -> Option<[Ipv6Net; 2]> {
        Some([ipv6_network(self.inside.network())?, ipv6_network(self.outside.network())?])
    }
}

/// A subnet that uses the Internet over IPv6.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InternetSubnet<'a> {
    pub(crate) network: Ipv6Net,
    pub(crate) at: SourcePos,
    pub(crate) translation: Option<&'a PrefixTranslation>,
}

#[cfg(test)]
mod tests;
