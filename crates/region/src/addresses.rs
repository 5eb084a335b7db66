//! Addresses that no tenant can use: the gateway drops packets that have one of them as inner
//! source or destination (drop reason `inner_address`), and a region file that needs one, for a
//! machine, a subnet or a route, is refused.
//!
//! The data plane's half of the list is in `programs/gateway/inner_checks.p4`; a test holds the two
//! to each other at both ends of each range (`dev/testkit/tests/gateway_addresses.rs`).
//!
//! Deliberately absent: ranges that routers do forward though they are special (RFC 6890: 100.64.0.0/10, documentation, benchmarking; RFC 6666:
//! 100::/64, which a tenant may well send to a black hole of its own; RFC 3879: fec0::/10, which is ordinary unicast).

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A range of addresses that is never routed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unusable {
    /// The range.
    pub prefix: IpNet,
    /// What it is, as it stands in messages: "a link-local address".
    pub what: &'static str,
    /// Where that is specified.
    pub source: &'static str,
}

/// All of them, IPv4 first; no two overlap.
pub const UNUSABLE: [Unusable; 9] = [
    v4([0, 0, 0, 0], 8, "an address of this network", "RFC 1122, section 3.2.1.3"),
    v4([127, 0, 0, 0], 8, "a loopback address", "RFC 1122, section 3.2.1.3"),
    v4([169, 254, 0, 0], 16, "a link-local address", "RFC 3927, section 7"),
    v4([224, 0, 0, 0], 4, "a multicast address", "RFC 1112, section 4"),
    v4([240, 0, 0, 0], 4, "a reserved address", "RFC 6890, section 2.2.2"),
    // Holds :: and ::1, too.
    v6([0, 0, 0, 0, 0, 0], 96, "an unspecified, loopback or IPv4-compatible address", "RFC 4291, section 2.5.5.1"),
    v6([0, 0, 0, 0, 0, 0xffff], 96, "an IPv4-mapped address", "RFC 6890, section 2.2.3"),
    v6([0xfe80, 0, 0, 0, 0, 0], 10, "a link-local address", "RFC 4291, section 2.5.6"),
    v6([0xff00, 0, 0, 0, 0, 0], 8, "a multicast address", "RFC 4291, section 2.7"),
];

const fn v4([a, b, c, d]: [u8; 4], len: u8, what: &'static str, source: &'static str) -> Unusable {
    Unusable { prefix: IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), len)), what, source }
}

const fn v6([a, b, c, d, e, f]: [u16; 6], len: u8, what: &'static str, source: &'static str) -> Unusable {
    Unusable { prefix: IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, d, e, f, 0, 0), len)), what, source }
}

/// The range that makes an address unusable, if there is one.
pub fn unusable(ip: IpAddr) -> Option<&'static Unusable> {
    UNUSABLE.iter().find(|range| range.prefix.contains(&ip))
}

/// The first range that a prefix has addresses of, if there is one: a prefix that lies within it, or that holds it.
pub fn unusable_part(prefix: IpNet) -> Option<&'static Unusable> {
    UNUSABLE.iter().find(|range| range.prefix.contains(&prefix) || prefix.contains(&range.prefix))
}

/// The range that a whole prefix is in: no packet can have an address of the prefix. Of several that make it up together, as 224.0.0.0/4 and
/// 240.0.0.0/4 make 224.0.0.0/3, the first.
pub fn unusable_whole(prefix: IpNet) -> Option<&'static Unusable> {
    let within = UNUSABLE.iter().find(|range| range.prefix.contains(&prefix));
    if within.is_some() || !UNUSABLE.iter().any(|range| prefix.contains(&range.prefix)) {
        return within;
    }
    // A half without any range in it ends the search, so that no more than one path of halves is followed.
    let mut halves = prefix.subnets(prefix.prefix_len() + 1).ok()?.map(unusable_whole);
    let (first, second) = (halves.next()??, halves.next()??);
    Some(if first.prefix < second.prefix { first } else { second })
}
