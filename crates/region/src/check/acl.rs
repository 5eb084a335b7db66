//! ACL rules.

use super::usable;
use crate::model::{AclDirection, AclRule, RegionFile};
use crate::position::At;
use crate::problem::Report;
use crate::values::Protocol;
use std::collections::HashMap;

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
    let has_ports = match rule.protocol.as_ref().map(|p| p.value) {
        Some(Protocol::Number(n)) => matches!(n, 6 | 17),
        Some(Protocol::Any | Protocol::Icmp) | None => false,
    };
    let given = rule.source_ports.as_ref().or(rule.ports.as_ref());
    if let (false, Some(ports)) = (has_ports, given) {
        report.add(
            ports.at,
            "ports are given, but the protocol has none",
            "add `protocol: tcp` or `udp`, or remove the ports",
        );
    }
}
