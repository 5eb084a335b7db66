//! Checks NAT64: prefixes, and the VPCs that use it.

use super::usable;
use crate::ipv6_internet::ipv6_network;
use crate::model::{RegionFile, Vpc};
use crate::nat64::{MAX_NAT64_MACHINES, NAT64_PREFIX_LEN, Nat64};
use crate::problem::ProblemCollector;
use crate::spanned::{SourcePos, WithPos};
use crate::values::quoted;
use ipnet::Ipv6Net;
use std::collections::HashSet;

/// Checks all VPCs.
pub(super) fn check(report: &mut ProblemCollector, file: &RegionFile) {
    let mut users: HashSet<&str> = HashSet::new();
    let mut first = None;
    for vpc in &file.vpcs {
        let Some(nat64) = &vpc.nat64 else { continue };
        users.insert(&vpc.name.value);
        first = first.or(Some(nat64.at));
        check_vpc(report, vpc, nat64);
    }
    let Some(at) = first else { return };
    let addresses = file.vms.iter().filter(|vm| users.contains(&*vm.vpc.value)).flat_map(|vm| &vm.addresses);
    if addresses.filter(|address| address.value.is_ipv6()).count() > MAX_NAT64_MACHINES {
        let message = format!("VPCs with `nat64` have more than {MAX_NAT64_MACHINES} addresses of machines");
        report.add(at, message, "split the region");
    }
}

fn check_vpc(report: &mut ProblemCollector, vpc: &Vpc, nat64: &WithPos<Nat64>) {
    let (name, at) = (quoted(&vpc.name), nat64.at);
    if vpc.nat.is_none() {
        let message = format!("VPC {name} has `nat64`, and no `nat`");
        report.add(at, message, "name a NAT in `nat`: its public addresses stand for the machines");
    }
    let subnets: Vec<(Ipv6Net, SourcePos)> =
        vpc.subnets.iter().filter_map(|subnet| Some((ipv6_network(subnet.network())?, subnet.at))).collect();
    if subnets.is_empty() {
        let message = format!("VPC {name} has `nat64`, and no subnet of IPv6");
        report.add(at, message, "add a subnet, or remove it");
    }
    if !check_prefix(report, nat64) {
        return;
    }
    let Some(network) = nat64.network() else { return };
    let at = nat64.prefix.as_ref().map_or(at, |prefix| prefix.at);
    for (subnet, subnet_at) in subnets {
        if subnet.contains(&network) || network.contains(&subnet) {
            let message = format!("{network} overlaps the subnet {subnet} of VPC {name} in line {}", subnet_at.line);
            report.add(at, message, "use a prefix that no machine has an address of, such as 64:ff9b::/96");
        }
    }
    let routes = vpc.routes.iter().chain(vpc.route_tables.iter().flat_map(|table| &table.routes));
    for route in routes.filter(|route| ipv6_network(route.to.network()) == Some(network)) {
        let message = format!("{network} has a route, and is the prefix of `nat64` in line {}", at.line);
        report.add(route.to.at, message, "remove the route: `nat64` has one of its own");
    }
}

/// Checks a prefix by itself. Returns whether it is right.
fn check_prefix(report: &mut ProblemCollector, nat64: &Nat64) -> bool {
    let Some(prefix) = &nat64.prefix else { return true };
    let Some(network) = ipv6_network(prefix.network()) else {
        let message = format!("{} is of IPv4, and `nat64` needs a prefix of IPv6", prefix.value);
        report.add(prefix.at, message, "use a prefix of 96 bits, such as 64:ff9b::/96: hosts of IPv4 are behind it");
        return false;
    };
    if network.prefix_len() != NAT64_PREFIX_LEN {
        let message = format!("{network} has {} bits, and an IPv4 address is behind 96", network.prefix_len());
        report.add(prefix.at, message, "use a prefix of 96 bits, such as 64:ff9b::/96 (RFC 6052)");
        return false;
    }
    usable::check_subnet(report, prefix);
    // RFC 6052, section 2.2.
    if network.network().octets()[8] != 0 {
        let message = format!("bits 64 to 71 of {network} are not 0");
        report.add(prefix.at, message, "use a prefix with zeros there (RFC 6052, section 2.2)");
    }
    true
}
