//! Checks of ACL rules.

use super::match_fields::MatchFields;
use super::routes::FlatRoute;
use super::{MAX_TRANSIT_PATHS, usable};
use crate::model::{AclDirection, AclRule, RegionFile};
use crate::problem::ProblemCollector;
use std::collections::{HashMap, HashSet};

/// Maximum priority. P4Runtime priorities are positive int32.
pub const MAX_PRIORITY: u32 = 1 << 24;

pub(super) fn check(report: &mut ProblemCollector, file: &RegionFile) {
    for vpc in &file.vpcs {
        let mut lines: HashMap<(u32, bool), u32> = HashMap::new();
        for rule in &vpc.acl {
            check_priority(report, rule);
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
            check_addresses(report, rule);
            let matched = MatchFields::of_acl(rule);
            matched.check_ports(report);
            matched.check_icmp(report);
        }
    }
}

/// Maximum number of rules of a transit path, computed from the lists of its VPCs: half of the
/// table's size.
const MAX_TRANSIT_RULES: usize = 1 << 17;

/// Checks the transit paths of all routes: their number and the number of their rules. A packet on
/// such a path must pass the lists of all its VPCs, and these are combined into one list per path.
pub(super) fn check_transit_paths(report: &mut ProblemCollector, file: &RegionFile, tables: &[Vec<Vec<FlatRoute>>]) {
    let mut seen = HashSet::new();
    for route in tables.iter().flatten().flatten() {
        let Some(way @ (_, to)) = route.transit_path().filter(|way| !seen.contains(way)) else { continue };
        seen.insert(way);
        if seen.len() > MAX_TRANSIT_PATHS {
            let message = format!(
                "routes use more than {MAX_TRANSIT_PATHS} different paths through other VPCs, up to the one to {}",
                route.prefix
            );
            return report.add(route.origin, message, "peer directly, or let fewer VPCs use the exits of others");
        }
        // A permit rule with ports becomes two entries, because later fragments need their own.
        let rules = |vpc: &usize| 2 * file.vpcs[*vpc].acl.len() + 1;
        let all = route.via.iter().chain(&to).map(rules).fold(1, usize::saturating_mul);
        if all > MAX_TRANSIT_RULES {
            let names: Vec<&str> = route.via.iter().chain(&to).map(|vpc| &*file.vpcs[*vpc].name.value).collect();
            let message = format!(
                "the route to {} passes VPCs whose lists combine to up to {all} rules: {}",
                route.prefix,
                names.join(", ")
            );
            report.add(
                route.origin,
                message,
                format!("peer directly, or shorten a list: {MAX_TRANSIT_RULES} are possible"),
            );
        }
    }
}

/// Returns the directions of a rule: egress (true), ingress (false), or both.
pub(crate) fn directions(direction: AclDirection) -> &'static [bool] {
    match direction {
        AclDirection::Egress => &[true],
        AclDirection::Ingress => &[false],
        AclDirection::Both => &[true, false],
    }
}

fn check_priority(report: &mut ProblemCollector, rule: &AclRule) {
    if *rule.priority == 0 || *rule.priority > MAX_PRIORITY {
        let message = format!("priority {} is out of range", *rule.priority);
        report.add(rule.priority.at, message, format!("use 1 to {MAX_PRIORITY}; greater wins"));
    }
}

fn check_addresses(report: &mut ProblemCollector, rule: &AclRule) {
    if let Some(from) = &rule.from {
        usable::check_match(report, from, "a rule about packets from");
    }
    if let Some(to) = &rule.to {
        usable::check_match(report, to, "a rule about packets to");
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

/// Checks that each kind of extension is listed once per VPC.
pub(super) fn check_extensions(report: &mut ProblemCollector, file: &RegionFile) {
    for vpc in &file.vpcs {
        let mut seen = HashSet::new();
        for kind in &vpc.drop {
            if !seen.insert(kind.value) {
                report.add(kind.at, format!("VPC `{}` drops this twice", vpc.name.value), "name each kind once");
            }
        }
    }
}
