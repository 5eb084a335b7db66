//! Entries for ACL rules.
//!
//! A rule without addresses applies to both IP versions. Later fragments have no ports. A permit
//! rule with ports gets a further entry that permits them, because large datagrams would otherwise
//! lose their tails. A deny rule with ports does not match later fragments, because no receiver can
//! reassemble them without the first one.

use super::EntryBuilder;
use super::gateway_tables::{exact, number};
use super::icmp::subnet_gateway;
use super::table_finder::GatewayTable;
use crate::check::acl_directions;
use crate::model::{AclAction, AclRule, Answer, Vpc};
use crate::spanned::SourcePos;
use crate::values::{Ports, Prefix};
use ipnet::IpNet;
use ir::KeyMatch;
use num_bigint::BigUint;
use std::cmp::Reverse;
use std::net::IpAddr;

/// Priority of a VPC's default. The priority of a rule is this plus the rule's own.
const DEFAULT_PRIORITY: i32 = 1;
/// Priority of permitted solicitations, above that of all rules (at most 16777216 + 1).
const SOLICITATION_PRIORITY: i32 = DEFAULT_PRIORITY + (1 << 24) + 1;
/// ICMPv6 type of a neighbour solicitation (RFC 4861, section 4.3).
const ND_SOLICITATION: u16 = 135;

impl EntryBuilder<'_> {
    pub(super) fn add_acl(&mut self) {
        let (region, part, api) = (self.region, self.part, self.api);
        for (_, vpc) in region.file.vpcs.iter().enumerate().filter(|(v, _)| part.has_vpc(*v)) {
            let name = &*vpc.name.value;
            let id = self.numbers.vpcs[name];
            for (egress, tables) in [(true, &api.acl_out), (false, &api.acl_in)] {
                for (v6, table) in tables.iter().enumerate() {
                    for row in acl_rows(vpc, egress, v6) {
                        let action = action_index(row.verdict, false);
                        let priority = DEFAULT_PRIORITY.saturating_add(row.priority as i32);
                        let entry = table.entry(row.flow.keys(id, v6), action, vec![]).with_priority(priority);
                        self.add_entry(entry, row.at, format_args!("{}", row.what));
                    }
                    if v6 == 1 {
                        self.add_permitted_solicitations(vpc, table);
                    }
                    if vpc.acl_default != AclAction::Permit {
                        let action = action_index(vpc.acl_default, false);
                        let keys = AclMatch::default().keys(id, v6);
                        let entry = table.entry(keys, action, vec![]).with_priority(DEFAULT_PRIORITY);
                        let what = format_args!("VPC {name}: acl_default {}", action_word(vpc.acl_default));
                        self.add_entry(entry, vpc.name.at, what);
                    }
                }
            }
        }
    }
}

impl EntryBuilder<'_> {
    /// Permits neighbour solicitations that are sent to an address of the gateway itself, before all
    /// rules, as those to groups pass no list. Otherwise a list that denies by default would end the
    /// neighbour entry of each VM that probes it (RFC 4861, section 7.3).
    fn add_permitted_solicitations(&mut self, vpc: &Vpc, table: &GatewayTable<5>) {
        let has_rules = !vpc.acl.is_empty() || vpc.acl_default != AclAction::Permit;
        if !has_rules || !vpc.answers(Answer::Neighbours) {
            return;
        }
        let name = &*vpc.name.value;
        let id = self.numbers.vpcs[name];
        for subnet in &vpc.subnets {
            let Some(gateway @ IpAddr::V6(_)) = subnet_gateway(vpc, subnet.network()) else { continue };
            let solicitation = Ports { lo: ND_SOLICITATION, hi: ND_SOLICITATION };
            let flow = AclMatch {
                to: Some(Prefix(gateway.into())),
                protocol: Some(58),
                source_ports: Some(solicitation),
                later_fragment: Some(false),
                ..AclMatch::default()
            };
            let entry = table.entry(flow.keys(id, 1), 0, vec![]).with_priority(SOLICITATION_PRIORITY);
            self.add_entry(entry, subnet.at, format_args!("VPC {name}: answer neighbours at {gateway}"));
        }
    }
}

/// Returns the index of a verdict's action in [`super::GatewayApi`]. `transit`: the rule is of a
/// VPC that the packet passes through.
pub(super) fn action_index(verdict: AclAction, transit: bool) -> usize {
    match (verdict, transit) {
        (AclAction::Permit, _) => 0,
        (AclAction::Deny, false) => 1,
        (AclAction::Deny, true) => 2,
        (AclAction::Reject, false) => 3,
        (AclAction::Reject, true) => 4,
    }
}

/// Returns the word of a verdict in the region file.
fn action_word(verdict: AclAction) -> &'static str {
    match verdict {
        AclAction::Permit => "permit",
        AclAction::Deny => "deny",
        AclAction::Reject => "reject",
    }
}

/// A row of an ACL list of one IP version.
#[derive(Clone, Debug)]
pub(super) struct AclRow {
    /// The match of the row.
    pub(super) flow: AclMatch,
    /// The action of the row.
    pub(super) verdict: AclAction,
    /// Whether the row belongs to an egress list.
    pub(super) egress: bool,
    /// The rule's priority.
    pub(super) priority: u32,
    /// The rule's position.
    pub(super) at: SourcePos,
    /// Description of the rule for the provenance of entries.
    pub(super) what: String,
}

/// Returns a VPC's egress or ingress rows for IPv4 (0) or IPv6 (1), the highest priority first.
pub(super) fn acl_rows(vpc: &Vpc, egress: bool, v6: usize) -> Vec<AclRow> {
    let direction = if egress { "egress" } else { "ingress" };
    let about = |prefix: &crate::spanned::WithPos<Prefix>| usize::from(prefix.0.addr().is_ipv6()) == v6;
    let mut rows = Vec::new();
    for rule in vpc.acl.iter().filter(|rule| acl_directions(rule.direction).contains(&egress)) {
        if !rule.from.as_ref().or(rule.to.as_ref()).is_none_or(about) {
            continue;
        }
        let verdict = rule.action;
        let word = action_word(verdict);
        let what = format!("VPC {}: ACL {direction} {} {word}", vpc.name.value, rule.priority.value);
        let (priority, at) = (rule.priority.value, rule.at);
        rows.extend(rule_matches(rule, v6).into_iter().map(|flow| AclRow {
            flow,
            verdict,
            egress,
            priority,
            at,
            what: what.clone(),
        }));
    }
    rows.sort_by_key(|row| Reverse(row.priority));
    rows
}

/// Returns the matches of a rule. For a permit rule with ports, they include later fragments.
fn rule_matches(rule: &AclRule, v6: usize) -> Vec<AclMatch> {
    let protocol = rule.protocol.as_ref().and_then(|p| p.value.numbers()).map(|numbers| numbers[v6]);
    // The type numbers belong to one IP version.
    let types = rule.icmp_type.as_ref().and(rule.protocol.as_ref()).and_then(|p| p.icmp_types());
    if types.is_some_and(|of_v6| of_v6 != (v6 == 1)) {
        return Vec::new();
    }
    let number = |n: &crate::spanned::NumberWithPos<u8>| Ports { lo: n.value.into(), hi: n.value.into() };
    let [icmp_type, icmp_code] = [&rule.icmp_type, &rule.icmp_code].map(|n| n.as_ref().map(number));
    let [from, to] = [&rule.from, &rule.to].map(|p| p.as_ref().map(|p| p.value));
    let [source_ports, ports] = [&rule.source_ports, &rule.ports].map(|p| p.as_ref().map(|p| p.value));
    // The tables have type and code in the port columns.
    let (source_ports, ports) = (source_ports.or(icmp_type), ports.or(icmp_code));
    let about_ports = source_ports.is_some() || ports.is_some();
    let flow = AclMatch { from, to, protocol, source_ports, ports, later_fragment: about_ports.then_some(false) };
    let later = AclMatch { source_ports: None, ports: None, later_fragment: Some(true), ..flow };
    if about_ports && rule.action == AclAction::Permit { vec![flow, later] } else { vec![flow] }
}

/// Match of a row; `None` matches anything.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct AclMatch {
    from: Option<Prefix>,
    to: Option<Prefix>,
    protocol: Option<u8>,
    source_ports: Option<Ports>,
    ports: Option<Ports>,
    later_fragment: Option<bool>,
}

impl AclMatch {
    /// Returns the match keys for the table of IPv4 (0) or IPv6 (1).
    pub(super) fn keys(&self, list: u32, v6: usize) -> Vec<KeyMatch> {
        let width = [32, 128][v6];
        vec![
            exact(list),
            prefix_match(self.from, width),
            prefix_match(self.to, width),
            self.protocol.map_or(ternary(0, 0), |p| ternary(p.into(), 0xff)),
            range(self.source_ports),
            range(self.ports),
            self.later_fragment.map_or(ternary(0, 0), |later| ternary(later.into(), 1)),
        ]
    }

    /// Returns the intersection of two matches, or `None` if it is empty.
    pub(super) fn intersect(&self, other: &AclMatch) -> Option<AclMatch> {
        let equal = |a: u8, b: u8| (a == b).then_some(a);
        Some(AclMatch {
            from: intersect_optional(self.from, other.from, narrower)?,
            to: intersect_optional(self.to, other.to, narrower)?,
            protocol: intersect_optional(self.protocol, other.protocol, equal)?,
            source_ports: intersect_optional(self.source_ports, other.source_ports, overlap)?,
            ports: intersect_optional(self.ports, other.ports, overlap)?,
            later_fragment: intersect_optional(self.later_fragment, other.later_fragment, |a, b| {
                (a == b).then_some(a)
            })?,
        })
    }
}

/// Returns the intersection of two optional conditions, where a missing one matches anything.
/// `None` if it is empty.
fn intersect_optional<T>(a: Option<T>, b: Option<T>, both: impl Fn(T, T) -> Option<T>) -> Option<Option<T>> {
    match (a, b) {
        (Some(a), Some(b)) => both(a, b).map(Some),
        (a, b) => Some(a.or(b)),
    }
}

fn narrower(a: Prefix, b: Prefix) -> Option<Prefix> {
    let [x, y]: [IpNet; 2] = [a.network(), b.network()];
    if x.contains(&y) { Some(b) } else { y.contains(&x).then_some(a) }
}

fn overlap(a: Ports, b: Ports) -> Option<Ports> {
    let ports = Ports { lo: a.lo.max(b.lo), hi: a.hi.min(b.hi) };
    (ports.lo <= ports.hi).then_some(ports)
}

fn ternary(value: u32, mask: u32) -> KeyMatch {
    KeyMatch::Ternary { value: value.into(), mask: mask.into() }
}

fn range(ports: Option<Ports>) -> KeyMatch {
    let Ports { lo, hi } = ports.unwrap_or(Ports::ANY);
    KeyMatch::Range { lo: lo.into(), hi: hi.into() }
}

/// Returns a prefix as value and mask of `width` bits.
fn prefix_match(prefix: Option<Prefix>, width: u32) -> KeyMatch {
    let Some(prefix) = prefix.map(Prefix::network) else { return ternary(0, 0) };
    let ones = (BigUint::from(1u8) << prefix.prefix_len()) - 1u8;
    let mask = ones << (width - u32::from(prefix.prefix_len()));
    KeyMatch::Ternary { value: number(prefix.network()), mask }
}
