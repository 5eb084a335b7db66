//! Checks that addresses, prefixes and MAC addresses are usable in a region file.

use crate::addresses::{UnusableRange, enclosing_unusable_range, overlapping_unusable_range, unusable_range_of};
use crate::problem::ProblemCollector;
use crate::spanned::WithPos;
use crate::values::{Mac, Prefix};
use ipnet::IpNet;
use std::net::IpAddr;

/// Checks that an address is one that routers forward; otherwise reports a problem and returns
/// false. `what` describes its use, as in "a tunnel address".
pub(super) fn check_address(report: &mut ProblemCollector, address: &WithPos<IpAddr>, what: &str) -> bool {
    let Some(range) = unusable_range_of(address.value) else { return true };
    let message = format!("{} can't be {what}: it is {}", address.value, describe(range));
    let help = match address.value {
        IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => {
            v6.to_ipv4_mapped().map_or(String::new(), |v4| format!("write the IPv4 address itself: {v4}"))
        }
        _ => "use a unicast address that routers forward".to_owned(),
    };
    report.add(address.at, message, help);
    false
}

/// Checks that a prefix has no host bits.
pub(super) fn check_network(report: &mut ProblemCollector, prefix: &WithPos<Prefix>) {
    if prefix.has_host_bits() {
        report.add(
            prefix.at,
            format!("{} has bits set after its prefix length", prefix.value),
            format!("write {}", prefix.network()),
        );
    }
}

/// Checks a subnet: no host bits, and only addresses that routers forward.
pub(super) fn check_subnet(report: &mut ProblemCollector, prefix: &WithPos<Prefix>) {
    check_network(report, prefix);
    let Some(part) = overlapping_unusable_range(prefix.network()) else { return };
    let why = match enclosing_unusable_range(prefix.network()) {
        Some(range) => format!("each address of it is {}", describe(range)),
        None => format!("it contains {} ({})", part.prefix, part.source),
    };
    let message = format!("{} can't be a subnet: {why}", prefix.value);
    report.add(prefix.at, message, "use a smaller or another range of unicast addresses");
}

/// Checks a prefix that packets are matched with: no host bits, and at least one address that a
/// packet can have. A short prefix such as 0.0.0.0/0 can include unusable addresses. `what`
/// describes its use, as in "a route".
pub(super) fn check_match(report: &mut ProblemCollector, prefix: &WithPos<Prefix>, what: &str) {
    check_network(report, prefix);
    if let Some(range) = enclosing_unusable_range(prefix.network()) {
        let why = describe(range);
        let message = format!("no packet can match {what} {}: each address of it is {why}", prefix.value);
        report.add(prefix.at, message, help_for_match(prefix.network()));
    }
}

fn help_for_match(prefix: IpNet) -> &'static str {
    match prefix {
        IpNet::V6(v6) if v6.addr().to_ipv4_mapped().is_some() => "write the IPv4 prefix itself",
        _ => "remove it: the gateway drops these packets by itself, as `inner_address`",
    }
}

fn describe(range: &UnusableRange) -> String {
    format!("{} ({}, {})", range.what, range.prefix, range.source)
}

/// Checks that a MAC address is one of a single host.
pub(super) fn check_unicast(report: &mut ProblemCollector, mac: &WithPos<Mac>) {
    if mac.is_group() || mac.value == Mac([0; 6]) {
        report.add(
            mac.at,
            format!("{} is not the address of one host", mac.value),
            "use a unicast MAC address (first byte even)",
        );
    }
}
