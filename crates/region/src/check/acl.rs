//! ACL rules.

use super::routes::FlatRoute;
use super::{MAX_WAYS, usable};
use crate::model::{AclDirection, AclRule, RegionFile};
use crate::position::At;
use crate::problem::Report;
use crate::values::Protocol;
use std::collections::{HashMap, HashSet};

/// Greatest priority: P4Runtime's are positive int32.
pub const MAX_PRIORITY: u32 = 1 << 24;

pub(super) fn check(report: &mut Report, file: &RegionFile) {
    for vpc in &file.vpcs {
        let mut lines: HashMap<(u32, bool), u32> = HashMap::new();
        for rule in &vpc.acl {
            priority(report, rule);
            for egress in directions(rule.direction) {
                if let Some(line) = lines.insert((*rule.priority, *egress), rule.at.line) {
                    let message = format!("priority {} is used twice, first in line {line}", *rule.priority);
                    report.add(
                        rule.priority.at,
                        message,
                        "give each rule of a VPC and direction a priority of its own",
                    );
                    break;
                }
            }
            addresses(report, rule);
            ports(report, rule);
            icmp(report, rule);
        }
    }
}

/// Most rules of a way through other VPCs, as it may come to of those VPCs' rules: half of what the table is made for.
const MAX_WAY_RULES: usize = 1 << 17;

/// A packet that passes through VPCs is asked for by the rules of all of them, which are put together before it comes.
pub(super) fn ways(report: &mut Report, file: &RegionFile, tables: &[Vec<Vec<FlatRoute>>]) {
    let mut seen = HashSet::new();
    for route in tables.iter().flatten().flatten() {
        let Some(way @ (_, to)) = route.way().filter(|way| !seen.contains(way)) else { continue };
        seen.insert(way);
        if seen.len() > MAX_WAYS {
            let message = format!(
                "routes lead by more than {MAX_WAYS} different ways through other VPCs, up to the one to {}",
                route.prefix
            );
            return report.add(route.origin, message, "peer directly, or let fewer VPCs use the exits of others");
        }
        // A permit rule about ports is two, with one for later fragments.
        let rules = |vpc: &usize| 2 * file.vpcs[*vpc].acl.len() + 1;
        let all = route.via.iter().chain(&to).map(rules).fold(1, usize::saturating_mul);
        if all > MAX_WAY_RULES {
            let names: Vec<&str> = route.via.iter().chain(&to).map(|vpc| &*file.vpcs[*vpc].name.value).collect();
            let message = format!(
                "the route to {} leads through VPCs whose lists together may make {all} rules: {}",
                route.prefix,
                names.join(", ")
            );
            report.add(
                route.origin,
                message,
                format!("peer directly, or shorten a list: {MAX_WAY_RULES} are possible"),
            );
        }
    }
}

/// Whether the rule is about egress (true), ingress (false), or both.
pub(crate) fn directions(direction: AclDirection) -> &'static [bool] {
    match direction {
        AclDirection::Egress => &[true],
        AclDirection::Ingress => &[false],
        AclDirection::Both => &[true, false],
    }
}

fn priority(report: &mut Report, rule: &AclRule) {
    if *rule.priority == 0 || *rule.priority > MAX_PRIORITY {
        let message = format!("priority {} is out of range", *rule.priority);
        report.add(rule.priority.at, message, format!("use 1 to {MAX_PRIORITY}; greater wins"));
    }
}

fn addresses(report: &mut Report, rule: &AclRule) {
    if let Some(from) = &rule.from {
        usable::matched(report, from, "a rule about packets from");
    }
    if let Some(to) = &rule.to {
        usable::matched(report, to, "a rule about packets to");
    }
    if let (Some(from), Some(to)) = (&rule.from, &rule.to)
        && from.0.addr().is_ipv4() != to.0.addr().is_ipv4()
    {
        report.add(
            to.at,
            "`from` and `to` are of different IP versions: no packet can match",
            "write one rule for each version",
        );
    }
}

fn ports(report: &mut Report, rule: &At<AclRule>) {
    let protocol = rule.protocol.as_ref().map_or(Protocol::Any, |p| p.value);
    let given = rule.source_ports.as_ref().or(rule.ports.as_ref());
    if let (false, Some(ports)) = (protocol.has_ports(), given) {
        report.add(
            ports.at,
            "ports are given, but the protocol has none",
            "add `protocol: tcp`, `udp`, `sctp`, `udplite` or `dccp`, or remove the ports; ICMP has `icmp_type`",
        );
    }
}

/// A type belongs to ICMP of one IP version: numbers mean something else in the other one.
fn icmp(report: &mut Report, rule: &At<AclRule>) {
    if let (Some(code), None) = (&rule.icmp_code, &rule.icmp_type) {
        let message = "an ICMP code is given without a type, whose code it would be";
        report.add(code.at, message, "add `icmp_type`, or remove `icmp_code`");
    }
    let Some(icmp_type) = &rule.icmp_type else { return };
    let protocol = rule.protocol.as_ref().map_or(Protocol::Any, |p| p.value);
    let Some(v6) = protocol.icmp_types() else {
        let message = "an ICMP type is given, but the protocol is not ICMP";
        return report.add(icmp_type.at, message, "add `protocol: icmp` or `icmpv6`, or remove `icmp_type`");
    };
    let given = rule.from.as_ref().or(rule.to.as_ref());
    if given.is_some_and(|prefix| prefix.0.addr().is_ipv6() != v6) {
        let [own, other] = if v6 { ["icmpv6", "icmp"] } else { ["icmp", "icmpv6"] };
        let message = format!("types of {own} are not those of these addresses: no packet can match");
        report.add(icmp_type.at, message, format!("write `protocol: {other}` and its type, or other addresses"));
    }
}

/// The kinds that a VPC drops are named once each.
pub(super) fn extensions(report: &mut Report, file: &RegionFile) {
    for vpc in &file.vpcs {
        let mut seen = HashSet::new();
        for kind in &vpc.drop {
            if !seen.insert(kind.value) {
                report.add(kind.at, format!("VPC `{}` drops this twice", vpc.name.value), "name each kind once");
            }
        }
    }
}
