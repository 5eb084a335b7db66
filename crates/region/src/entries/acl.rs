//! ACL rules.
//!
//! A rule that says no addresses holds for both IP versions. Fragments behind the first have no ports: a permit rule about
//! ports lets them pass, by an entry of its own, or large datagrams would lose their tails; a deny rule leaves them out, as
//! no receiver can put them together without the first.

use super::Maker;
use super::api::{exact, number};
use crate::check::acl_directions;
use crate::model::{AclRule, Verdict, Vpc};
use crate::position::Position;
use crate::values::{Ports, Prefix, Protocol};
use ipnet::IpNet;
use ir::KeyMatch;
use num_bigint::BigUint;
use std::cmp::Reverse;

/// Priority of a VPC's default; a rule's is its own and this.
const DEFAULT_PRIORITY: i32 = 1;

impl Maker<'_> {
    pub(super) fn acl(&mut self) {
        let (region, part, api) = (self.region, self.part, self.api);
        for (_, vpc) in region.file.vpcs.iter().enumerate().filter(|(v, _)| part.has_vpc(*v)) {
            let name = &*vpc.name.value;
            let id = self.numbers.vpcs[name];
            for (egress, tables) in [(true, &api.acl_out), (false, &api.acl_in)] {
                for (v6, table) in tables.iter().enumerate() {
                    for row in rows(vpc, egress, v6) {
                        let action = usize::from(row.verdict == Verdict::Deny);
                        let priority = DEFAULT_PRIORITY.saturating_add(row.priority as i32);
                        let entry = table.entry(row.flow.keys(id, v6), action, vec![]).with_priority(priority);
                        self.add(entry, row.at, format_args!("{}", row.what));
                    }
                    if vpc.acl_default == Verdict::Deny {
                        let entry =
                            table.entry(Match::default().keys(id, v6), 1, vec![]).with_priority(DEFAULT_PRIORITY);
                        self.add(entry, vpc.name.at, format_args!("VPC {name}: acl_default deny"));
                    }
                }
            }
        }
    }
}

/// What a rule is in a list of one IP version.
#[derive(Clone, Debug)]
pub(super) struct Row {
    /// What it matches.
    pub(super) flow: Match,
    /// What becomes of that.
    pub(super) verdict: Verdict,
    /// Whether it is in the list of what leaves.
    pub(super) egress: bool,
    /// The rule's priority.
    pub(super) priority: u32,
    /// The rule's place.
    pub(super) at: Position,
    /// The rule in words.
    pub(super) what: String,
}

/// A VPC's rules about what leaves it, or about what is delivered in it, for IPv4 (0) or IPv6 (1): the one that decides first in front.
pub(super) fn rows(vpc: &Vpc, egress: bool, v6: usize) -> Vec<Row> {
    let direction = if egress { "egress" } else { "ingress" };
    let about = |prefix: &crate::position::At<Prefix>| usize::from(prefix.0.addr().is_ipv6()) == v6;
    let mut rows = Vec::new();
    for rule in vpc.acl.iter().filter(|rule| acl_directions(rule.direction).contains(&egress)) {
        if !rule.from.as_ref().or(rule.to.as_ref()).is_none_or(about) {
            continue;
        }
        let verdict = rule.action;
        let word = if verdict == Verdict::Permit { "permit" } else { "deny" };
        let what = format!("VPC {}: ACL {direction} {} {word}", vpc.name.value, rule.priority.value);
        let (priority, at) = (rule.priority.value, rule.at);
        rows.extend(flows(rule, v6).into_iter().map(|flow| Row {
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

/// What a rule matches, and for a permit rule about ports, later fragments besides.
fn flows(rule: &AclRule, v6: usize) -> Vec<Match> {
    let protocol = match rule.protocol.as_ref().map(|p| p.value) {
        None | Some(Protocol::Any) => None,
        Some(Protocol::Icmp) => Some([1, 58][v6]),
        Some(Protocol::Number(n)) => Some(n),
    };
    // Numbers of types are those of one version.
    let types = rule.icmp_type.as_ref().and(rule.protocol.as_ref()).and_then(|p| p.icmp_types());
    if types.is_some_and(|of_v6| of_v6 != (v6 == 1)) {
        return Vec::new();
    }
    let number = |n: &crate::position::Number<u8>| Ports { lo: n.value.into(), hi: n.value.into() };
    let [icmp_type, icmp_code] = [&rule.icmp_type, &rule.icmp_code].map(|n| n.as_ref().map(number));
    let [from, to] = [&rule.from, &rule.to].map(|p| p.as_ref().map(|p| p.value));
    let [source_ports, ports] = [&rule.source_ports, &rule.ports].map(|p| p.as_ref().map(|p| p.value));
    // In the tables, type and code stand where ports do.
    let (source_ports, ports) = (source_ports.or(icmp_type), ports.or(icmp_code));
    let about_ports = source_ports.is_some() || ports.is_some();
    let flow = Match { from, to, protocol, source_ports, ports, later_fragment: about_ports.then_some(false) };
    let later = Match { source_ports: None, ports: None, later_fragment: Some(true), ..flow };
    if about_ports && rule.action == Verdict::Permit { vec![flow, later] } else { vec![flow] }
}

/// What a rule matches; `None` is anything.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Match {
    from: Option<Prefix>,
    to: Option<Prefix>,
    protocol: Option<u8>,
    source_ports: Option<Ports>,
    ports: Option<Ports>,
    later_fragment: Option<bool>,
}

impl Match {
    /// The keys of the table of IPv4 (0) or IPv6 (1).
    pub(super) fn keys(&self, list: u32, v6: usize) -> Vec<KeyMatch> {
        let width = [32, 128][v6];
        vec![
            exact(list),
            within(self.from, width),
            within(self.to, width),
            self.protocol.map_or(ternary(0, 0), |p| ternary(p.into(), 0xff)),
            range(self.source_ports),
            range(self.ports),
            self.later_fragment.map_or(ternary(0, 0), |later| ternary(later.into(), 1)),
        ]
    }

    /// What both match; none if no packet does.
    pub(super) fn and(&self, other: &Match) -> Option<Match> {
        let equal = |a: u8, b: u8| (a == b).then_some(a);
        Some(Match {
            from: common(self.from, other.from, narrower)?,
            to: common(self.to, other.to, narrower)?,
            protocol: common(self.protocol, other.protocol, equal)?,
            source_ports: common(self.source_ports, other.source_ports, overlap)?,
            ports: common(self.ports, other.ports, overlap)?,
            later_fragment: common(self.later_fragment, other.later_fragment, |a, b| (a == b).then_some(a))?,
        })
    }
}

/// What two conditions have in common, each of which may be none; `None` if nothing.
fn common<T>(a: Option<T>, b: Option<T>, both: impl Fn(T, T) -> Option<T>) -> Option<Option<T>> {
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

/// A prefix as value and mask of `width` bits.
fn within(prefix: Option<Prefix>, width: u32) -> KeyMatch {
    let Some(prefix) = prefix.map(Prefix::network) else { return ternary(0, 0) };
    let ones = (BigUint::from(1u8) << prefix.prefix_len()) - 1u8;
    let mask = ones << (width - u32::from(prefix.prefix_len()));
    KeyMatch::Ternary { value: number(prefix.network()), mask }
}
