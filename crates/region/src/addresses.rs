//! Addresses that no tenant can use. The gateway drops packets that have one of them as inner
//! source or destination (drop reason `inner_address`). A region file that needs one for a machine,
//! a subnet or a route is refused.
//!
//! The data plane has the same list in `programs/gateway/inner_checks.p4`. A test compares both at
//! the ends of each range (`dev/testkit/tests/gateway_program/addresses.rs`).
//!
//! The list omits special ranges that routers forward (RFC 6890: 100.64.0.0/10, documentation,
//! benchmarking; RFC 6666: 100::/64, which a tenant can send to a black hole of its own; RFC 3879:
//! fec0::/10, which is ordinary unicast).

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A range of addresses that is never routed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnusableRange {
    /// The range.
    pub prefix: IpNet,
    /// Description for messages, with its article: "a link-local address".
    pub what: &'static str,
    /// The specification of the range.
    pub source: &'static str,
}

/// All unusable ranges, IPv4 first. They do not overlap.
pub const UNUSABLE_RANGES: [UnusableRange; 9] = [
    v4([0, 0, 0, 0], 8, "an address of this network", "RFC 1122, section 3.2.1.3"),
    v4([127, 0, 0, 0], 8, "a loopback address", "RFC 1122, section 3.2.1.3"),
    v4([169, 254, 0, 0], 16, "a link-local address", "RFC 3927, section 7"),
    v4([224, 0, 0, 0], 4, "a multicast address", "RFC 1112, section 4"),
    v4([240, 0, 0, 0], 4, "a reserved address", "RFC 6890, section 2.2.2"),
    // Includes :: and ::1.
    v6([0, 0, 0, 0, 0, 0], 96, "an unspecified, loopback or IPv4-compatible address", "RFC 4291, section 2.5.5.1"),
    v6([0, 0, 0, 0, 0, 0xffff], 96, "an IPv4-mapped address", "RFC 6890, section 2.2.3"),
    v6([0xfe80, 0, 0, 0, 0, 0], 10, "a link-local address", "RFC 4291, section 2.5.6"),
    v6([0xff00, 0, 0, 0, 0, 0], 8, "a multicast address", "RFC 4291, section 2.7"),
];

const fn v4([a, b, c, d]: [u8; 4], len: u8, what: &'static str, source: &'static str) -> UnusableRange {
    UnusableRange { prefix: IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), len)), what, source }
}

const fn v6([a, b, c, d, e, f]: [u16; 6], len: u8, what: &'static str, source: &'static str) -> UnusableRange {
    UnusableRange { prefix: IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, d, e, f, 0, 0), len)), what, source }
}

/// Returns the range that makes an address unusable, if any.
pub fn unusable_range_of(ip: IpAddr) -> Option<&'static UnusableRange> {
    UNUSABLE_RANGES.iter().find(|range| range.prefix.contains(&ip))
}

/// Returns the first unusable range that overlaps a prefix, if any.
pub fn overlapping_unusable_range(prefix: IpNet) -> Option<&'static UnusableRange> {
    UNUSABLE_RANGES.iter().find(|range| range.prefix.contains(&prefix) || prefix.contains(&range.prefix))
}

/// Returns the unusable range that encloses a prefix, because then no packet can have an address of
/// it. If several ranges together cover the prefix, as 224.0.0.0/4 and 240.0.0.0/4 cover
/// 224.0.0.0/3, returns the first.
pub fn enclosing_unusable_range(prefix: IpNet) -> Option<&'static UnusableRange> {
    let within = UNUSABLE_RANGES.iter().find(|range| range.prefix.contains(&prefix));
    if within.is_some() || !UNUSABLE_RANGES.iter().any(|range| prefix.contains(&range.prefix)) {
        return within;
    }
    // The search stays linear in the prefix length, because a half that overlaps no range ends it.
    let mut halves = prefix.subnets(prefix.prefix_len() + 1).ok()?.map(enclosing_unusable_range);
    let (first, second) = (halves.next()??, halves.next()??);
    Some(if first.prefix < second.prefix { first } else { second })
}
