//! Checks the ways of VPCs to the Internet over IPv6.

use super::internet::underlay_addresses;
use super::usable;
use crate::ipv6_internet::{Ipv6Internet, MAX_TRANSLATED_LEN, PrefixTranslation, ipv6_network};
use crate::model::{RegionFile, Vpc};
use crate::problem::ProblemCollector;
use crate::spanned::{SourcePos, WithPos};
use crate::values::{Prefix, quoted};
use ipnet::{IpNet, Ipv6Net};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};

/// Most prefixes of VPCs with a way to the Internet: each VPC has an entry besides those of its subnets
/// (programs/gateway/internet_v6.p4).
const MAX_PREFIXES: usize = 65_536;

/// Addresses that are on no Internet: unique local (RFC 4193), and site-local (RFC 3879).
const PRIVATE: [(Ipv6Net, &str); 2] = [
    (Ipv6Net::new_assert(Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7), "unique local (RFC 4193)"),
    (Ipv6Net::new_assert(Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 0), 10), "site-local (RFC 3879)"),
];

/// Returns the kind of a prefix that is on no Internet.
fn private_kind(network: Ipv6Net) -> Option<&'static str> {
    let found = PRIVATE.iter().find(|(private, _)| private.contains(&network) || network.contains(private));
    found.map(|(_, kind)| *kind)
}

/// A prefix that the region has on the Internet.
struct Claim<'a> {
    network: Ipv6Net,
    at: SourcePos,
    vpc: usize,
    is_subnet: bool,
    name: &'a str,
}

/// Checks all VPCs.
pub(super) fn check(report: &mut ProblemCollector, file: &RegionFile) {
    let mut claims = Vec::new();
    let mut count = 0;
    for (number, vpc) in file.vpcs.iter().enumerate() {
        let Some(internet) = &vpc.ipv6_internet else { continue };
        if file.internet.is_none() {
            let message = format!("VPC {} has `ipv6_internet`, and the region has no `internet`", quoted(&vpc.name));
            report.add(internet.at, message, "add `internet: {uplinks: [...]}`, or remove it");
        }
        check_translations(report, vpc, internet);
        check_used_subnets(report, vpc, internet);
        check_subnets(report, vpc, internet.at);
        count += 1 + vpc.subnets.len();
        if count > MAX_PREFIXES && count - 1 - vpc.subnets.len() <= MAX_PREFIXES {
            let message = format!("VPCs with `ipv6_internet` have more than {MAX_PREFIXES} subnets, up to here");
            report.add(internet.at, message, "split the region");
        }
        let name = &**vpc.name;
        let subnets = vpc.internet_subnets().filter(|subnet| subnet.translation.is_none());
        claims.extend(subnets.map(|subnet| Claim {
            network: subnet.network,
            at: subnet.at,
            vpc: number,
            is_subnet: true,
            name,
        }));
        let outside = internet.translate.iter().filter_map(|one| Some((one.networks()?[1], one.outside.at)));
        claims.extend(outside.map(|(network, at)| Claim { network, at, vpc: number, is_subnet: false, name }));
    }
    check_claims(report, file, claims);
}

/// Checks that no prefix belongs to two VPCs, and that none contains an address of the underlay.
fn check_claims(report: &mut ProblemCollector, file: &RegionFile, mut claims: Vec<Claim<'_>>) {
    if claims.is_empty() {
        return;
    }
    for (address, owner, owner_at) in underlay_addresses(file) {
        let IpAddr::V6(address) = address else { continue };
        for claim in claims.iter().filter(|claim| claim.network.contains(&address)) {
            let message = format!("{} contains {address} of `{owner}` in line {}", claim.network, owner_at.line);
            report.add(claim.at, message, "packets for it would be for a machine: use a prefix that nothing else has");
        }
    }
    claims.sort_by_key(|claim| (claim.network, claim.at));
    let mut open: Option<&Claim<'_>> = None;
    for claim in &claims {
        match open {
            Some(outer) if outer.network.contains(&claim.network) => {
                // Subnets of one VPC that overlap are reported there.
                if outer.vpc == claim.vpc && outer.is_subnet && claim.is_subnet {
                    continue;
                }
                let (first, second) = if outer.at <= claim.at { (outer, claim) } else { (claim, outer) };
                let message = format!(
                    "{} of VPC {} overlaps {} of VPC {} in line {}, and both are on the Internet",
                    second.network,
                    quoted(second.name),
                    first.network,
                    quoted(first.name),
                    first.at.line
                );
                report.add(second.at, message, "give each VPC prefixes of its own");
            }
            _ => open = Some(claim),
        }
    }
}

/// Checks that a prefix is of IPv6, and usable. Returns it.
fn check_v6(report: &mut ProblemCollector, prefix: &WithPos<Prefix>) -> Option<Ipv6Net> {
    let Some(network) = ipv6_network(prefix.network()) else {
        let message = format!("{} is of IPv4, and `ipv6_internet` is for IPv6", prefix.value);
        report.add(prefix.at, message, "use a prefix of IPv6; over IPv4, machines have a `nat`");
        return None;
    };
    usable::check_subnet(report, prefix);
    Some(network)
}

fn check_translations(report: &mut ProblemCollector, vpc: &Vpc, internet: &Ipv6Internet) {
    let mut before: Vec<(Ipv6Net, SourcePos)> = Vec::new();
    for PrefixTranslation { inside, outside } in &internet.translate {
        let both = [inside, outside].map(|prefix| check_v6(report, prefix));
        let [Some(from), Some(to)] = both else { continue };
        if from.prefix_len() != to.prefix_len() || from.prefix_len() > MAX_TRANSLATED_LEN {
            let message = format!("{from} can't be translated to {to}");
            let fix = format!("use two prefixes of the same length, of at most {MAX_TRANSLATED_LEN} bits (RFC 6296)");
            report.add(outside.at, message, fix);
        } else if from == to {
            let message = format!("{from} is translated to itself");
            report.add(outside.at, message, "remove it: a subnet without a translation keeps its addresses");
        }
        if let Some(kind) = private_kind(to) {
            let message = format!("{to} is on no Internet: it is {kind}");
            report.add(outside.at, message, "use a global prefix that the next router sends to the gateway");
        }
        if let Some((other, at)) = before.iter().find(|(other, _)| other.contains(&from) || from.contains(other)) {
            let message = format!("{from} overlaps {other} in line {}", at.line);
            report.add(inside.at, message, "translate each prefix once");
        }
        before.push((from, inside.at));
        let subnets: Vec<Ipv6Net> = vpc.subnets.iter().filter_map(|one| ipv6_network(one.network())).collect();
        if let Some(subnet) = subnets.iter().find(|subnet| subnet.contains(&from) && **subnet != from) {
            let message = format!("{from} is a part of the subnet {subnet}");
            report.add(inside.at, message, "translate whole subnets");
        } else if !subnets.iter().any(|subnet| from.contains(subnet)) {
            let message = format!("{from} contains no subnet of VPC {}", quoted(&vpc.name));
            report.add(inside.at, message, "correct the prefix, or add the subnet to the VPC");
        }
    }
}

/// Checks the list of subnets that use the Internet.
fn check_used_subnets(report: &mut ProblemCollector, vpc: &Vpc, internet: &Ipv6Internet) {
    let mut lines: HashMap<Prefix, u32> = HashMap::new();
    for used in internet.subnets.iter().flatten() {
        if check_v6(report, used).is_none() {
            continue;
        }
        if !vpc.subnets.iter().any(|subnet| subnet.value == used.value) {
            let message = format!("{} is no subnet of VPC {}", used.value, quoted(&vpc.name));
            report.add(used.at, message, "name a subnet as it is in `subnets` of the VPC");
        }
        if let Some(line) = lines.insert(used.value, used.at.line) {
            let message = format!("{} is named twice, first in line {line}", used.value);
            report.add(used.at, message, "remove one of both");
        }
    }
}

/// Checks that there are subnets that use the Internet, and that all are on it or translated.
fn check_subnets(report: &mut ProblemCollector, vpc: &Vpc, at: SourcePos) {
    if !vpc.subnets.iter().any(|subnet| matches!(subnet.network(), IpNet::V6(_))) {
        let message = format!("VPC {} has `ipv6_internet`, and no subnet of IPv6", quoted(&vpc.name));
        report.add(at, message, "add a subnet, or remove it");
    }
    for subnet in vpc.internet_subnets().filter(|subnet| subnet.translation.is_none()) {
        let Some(kind) = private_kind(subnet.network) else { continue };
        let message = format!("{} of VPC {} is on no Internet: it is {kind}", subnet.network, quoted(&vpc.name));
        let fix = format!(
            "translate it (NPTv6): `translate: [{{inside: \"{}\", outside: PREFIX}}]`, or list the other subnets in `subnets`",
            subnet.network
        );
        report.add(subnet.at, message, fix);
    }
}
