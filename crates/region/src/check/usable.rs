//! Addresses, prefixes and MAC addresses that may stand in a region file.

use crate::addresses::{Unusable, unusable, unusable_part, unusable_whole};
use crate::position::At;
use crate::problem::Report;
use crate::values::{Mac, Prefix};
use ipnet::IpNet;
use std::net::IpAddr;

/// An address that routers forward; complains and is false if it is none. `what` it is, as in "a tunnel address".
pub(super) fn address(report: &mut Report, address: &At<IpAddr>, what: &str) -> bool {
    let Some(range) = unusable(address.value) else { return true };
    let message = format!("{} can't be {what}: it is {}", address.value, describe(range));
    let mend = match address.value {
        IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => {
            v6.to_ipv4_mapped().map_or(String::new(), |v4| format!("write the IPv4 address itself: {v4}"))
        }
        _ => "use a unicast address that routers forward".to_owned(),
    };
    report.add(address.at, message, mend);
    false
}

/// A prefix without host bits.
pub(super) fn network(report: &mut Report, prefix: &At<Prefix>) {
    if prefix.has_host_bits() {
        report.add(
            prefix.at,
            format!("{} has bits set behind its prefix length", prefix.value),
            format!("write {}", prefix.network()),
        );
    }
}

/// A subnet: without host bits, and every address in it is one that routers forward.
pub(super) fn subnet(report: &mut Report, prefix: &At<Prefix>) {
    network(report, prefix);
    let Some(part) = unusable_part(prefix.network()) else { return };
    let why = match unusable_whole(prefix.network()) {
        Some(range) => format!("each address of it is {}", describe(range)),
        None => format!("it contains {} ({})", part.prefix, part.source),
    };
    let message = format!("{} can't be a subnet: {why}", prefix.value);
    report.add(prefix.at, message, "use a smaller or another range of unicast addresses");
}

/// What packets are compared with: without host bits, and not only addresses of which no packet gets that far. `what` it is, as
/// in "a route"; a longer prefix's range may contain such addresses, as 0.0.0.0/0 does.
pub(super) fn matched(report: &mut Report, prefix: &At<Prefix>, what: &str) {
    network(report, prefix);
    if let Some(range) = unusable_whole(prefix.network()) {
        let why = describe(range);
        let message = format!("no packet can match {what} {}: each address of it is {why}", prefix.value);
        report.add(prefix.at, message, mend_of_match(prefix.network()));
    }
}

fn mend_of_match(prefix: IpNet) -> &'static str {
    match prefix {
        IpNet::V6(v6) if v6.addr().to_ipv4_mapped().is_some() => "write the IPv4 prefix itself",
        _ => "remove it: the gateway drops these packets by itself, as `inner_address`",
    }
}

fn describe(range: &Unusable) -> String {
    format!("{} ({}, {})", range.what, range.prefix, range.source)
}

/// A host's MAC address.
pub(super) fn unicast(report: &mut Report, mac: &At<Mac>) {
    if mac.is_group() || mac.value == Mac([0; 6]) {
        report.add(
            mac.at,
            format!("{} is not the address of one host", mac.value),
            "use a unicast MAC address (first byte even)",
        );
    }
}
