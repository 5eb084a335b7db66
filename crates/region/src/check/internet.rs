//! Checks NATs: public addresses, limits, and the VPCs that use them.

use super::underlay::resolve_uplinks;
use super::{NameIndex, names, usable};
use crate::internet::{ADDRESS_PORTS, BLOCK_PORTS, Internet, Nat, address_count, ipv4_network};
use crate::model::RegionFile;
use crate::problem::ProblemCollector;
use crate::spanned::SourcePos;
use crate::values::quoted;
use ipnet::Ipv4Net;
use std::net::IpAddr;
use std::ops::RangeInclusive;

/// Public addresses that the gateway's pool of ports can number (programs/gateway/nat_session.p4).
pub(crate) const MAX_PUBLIC_ADDRESSES: u32 = 1024;
/// Addresses of subnets that it can number.
pub(crate) const MAX_NAT_SUBSCRIBERS: u32 = 1 << 24;
/// Idle times in seconds.
const TIMEOUTS: RangeInclusive<u32> = 10..=86_400;

/// What VPCs need of `internet`.
pub(super) struct ResolvedInternet {
    /// Indices of the uplinks that lead to the Internet.
    pub(super) uplinks: Vec<usize>,
    /// For each VPC, the index of its NAT.
    pub(super) vpc_nats: Vec<Option<usize>>,
}

/// Checks the way to the Internet.
pub(super) fn check(report: &mut ProblemCollector, file: &RegionFile, uplinks: &NameIndex<'_>) -> ResolvedInternet {
    let nats = file.internet.iter().flat_map(|internet| &internet.nats);
    let index = names::index_names(report, "NAT", nats.map(|nat| &nat.name));
    let mut found = ResolvedInternet { uplinks: Vec::new(), vpc_nats: Vec::new() };
    if let Some(internet) = &file.internet {
        let first = file.first_public_address().or(file.first_ipv6_internet());
        let at = first.unwrap_or(file.region.at);
        if first.is_none() {
            let help = "add some to `nats`, `elastic`, `forwards` or services, or `ipv6_internet` to a VPC, or remove `internet`";
            report.add(at, "`internet` has no public addresses", help);
        }
        found.uplinks = resolve_uplinks(report, file, ("the Internet", at), &internet.uplinks, uplinks);
        if internet.answer_arp && internet.uplinks.is_empty() {
            let help = "name the uplinks in `uplinks`, or remove `answer_arp`";
            report.add(at, "`answer_arp` without `uplinks`: on no link of the Internet", help);
        }
        check_nats(report, file, internet);
        check_refused(report, internet);
        if internet.timeouts.as_ref().is_some_and(|timeouts| timeouts.written().next().is_none()) {
            report.add(at, "`timeouts` has no times", "leave it out, or write `timeouts: {udp: 300}`");
        }
        for (name, time) in internet.timeouts.iter().flat_map(|timeouts| timeouts.written()) {
            if !TIMEOUTS.contains(&time.value) {
                let message = format!("the time {} of `{name}` is out of range", time.value);
                report.add(time.at, message, format!("use {} to {} seconds", TIMEOUTS.start(), TIMEOUTS.end()));
            }
        }
    }
    found.vpc_nats = check_vpcs(report, file, &index);
    found
}

fn check_nats(report: &mut ProblemCollector, file: &RegionFile, internet: &Internet) {
    let mut before: Vec<(Ipv4Net, SourcePos)> = Vec::new();
    let (mut total, owned) = (0, underlay_addresses(file));
    for nat in &internet.nats {
        check_ports(report, nat);
        let (addresses, at) = (&nat.addresses, nat.addresses.at);
        let Some(network) = ipv4_network(addresses.network()) else {
            let message = format!("{} can't be public addresses of a NAT: they are of IPv6", addresses.value);
            report.add(at, message, "use an IPv4 prefix; over IPv6, machines have public addresses of their own");
            continue;
        };
        usable::check_subnet(report, addresses);
        total += address_count(network);
        if total > u64::from(MAX_PUBLIC_ADDRESSES) {
            let message = format!("the NATs have more than {MAX_PUBLIC_ADDRESSES} public addresses, up to here");
            report.add(at, message, "use longer prefixes");
            return;
        }
        if let Some((other, first)) =
            before.iter().find(|(other, _)| other.contains(&network) || network.contains(other))
        {
            let message = format!("{network} overlaps {other} in line {}", first.line);
            report.add(at, message, "give each NAT addresses of its own");
        }
        for (address, owner, owner_at) in owned.iter().filter(|(address, ..)| match address {
            IpAddr::V4(address) => network.contains(address),
            IpAddr::V6(_) => false,
        }) {
            let message = format!("{network} contains {address} of `{owner}` in line {}", owner_at.line);
            report.add(at, message, "use addresses that nothing else has");
        }
        before.push((network, at));
    }
}

/// Returns the addresses of the underlay, with their owners.
pub(super) fn underlay_addresses(file: &RegionFile) -> Vec<(IpAddr, &str, SourcePos)> {
    let gateway = file.gateway.vteps.iter().map(|vtep| (vtep.value, "the gateway", vtep.at));
    let hosts = file.uplinks.iter().flat_map(|uplink| &uplink.host).flat_map(|host| &host.addresses);
    let hosts = hosts.map(|address| (address.value, "the gateway's host side", address.at));
    let servers = file.servers.iter().map(|server| (server.address.value, &**server.name, server.address.at));
    let remotes = file.remotes.iter().map(|remote| (remote.address.value, &**remote.name, remote.address.at));
    gateway.chain(hosts).chain(servers).chain(remotes).collect()
}

fn check_ports(report: &mut ProblemCollector, nat: &Nat) {
    let Some(ports) = nat.ports_per_vm else { return };
    if ports.value == 0 || ports.value > ADDRESS_PORTS || !ports.value.is_multiple_of(BLOCK_PORTS) {
        let message = format!("`ports_per_vm: {}` is no number of whole blocks", ports.value);
        report.add(ports.at, message, format!("use a multiple of {BLOCK_PORTS}, up to {ADDRESS_PORTS}"));
    }
}

fn check_refused(report: &mut ProblemCollector, internet: &Internet) {
    for prefix in internet.refuse.iter().flatten() {
        usable::check_network(report, prefix);
    }
}

/// Checks the VPCs that use a NAT. Returns the NAT of each VPC.
fn check_vpcs(report: &mut ProblemCollector, file: &RegionFile, nats: &NameIndex<'_>) -> Vec<Option<usize>> {
    let mut machines = 0;
    let mut found = Vec::with_capacity(file.vpcs.len());
    for vpc in &file.vpcs {
        let Some(name) = &vpc.nat else {
            found.push(None);
            continue;
        };
        found.push(names::resolve(report, "NAT", name, nats));
        let subnets = vpc.ipv4_subnets().map(|(subnet, _)| subnet);
        let (before, own) = (machines, subnets.map(address_count).sum::<u64>());
        machines += own;
        if own == 0 && vpc.nat64.is_none() {
            let message = format!("VPC {} has a NAT, but no subnet of IPv4", quoted(&vpc.name));
            report.add(name.at, message, "add a subnet, or remove `nat`");
        }
        if machines > u64::from(MAX_NAT_SUBSCRIBERS) && before <= u64::from(MAX_NAT_SUBSCRIBERS) {
            let message =
                format!("the VPCs with a NAT have subnets of more than {MAX_NAT_SUBSCRIBERS} addresses, up to here");
            report.add(name.at, message, "use smaller subnets, or remove `nat` from VPCs that do not need it");
        }
    }
    found
}
