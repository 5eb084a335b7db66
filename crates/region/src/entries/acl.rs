//! ACL rules.
//!
//! A rule that says no addresses holds for both IP versions. Fragments behind the first have no ports: a permit rule about
//! ports lets them pass, by an entry of its own, or large datagrams would lose their tails; a deny rule leaves them out, as
//! no receiver can put them together without the first.

use super::Maker;
use super::api::{TableApi, exact, number};
use crate::check::acl_directions;
use crate::model::{AclRule, Verdict};
use crate::values::{Ports, Prefix, Protocol};
use ir::KeyMatch;
use num_bigint::BigUint;

/// Priority of a VPC's default; a rule's is its own and this.
const DEFAULT_PRIORITY: i32 = 1;

impl Maker<'_> {
    pub(super) fn acl(&mut self) {
        for vpc in &self.region.file.vpcs {
            let name = &*vpc.name.value;
            let id = self.numbers.vpcs[name];
            for rule in &vpc.acl {
                for egress in acl_directions(rule.direction) {
                    self.rule(id, name, rule, *egress, rule.at);
                }
            }
            if vpc.acl_default == Verdict::Deny {
                for tables in [&self.api.acl_out, &self.api.acl_in] {
                    for (v6, table) in tables.iter().enumerate() {
                        let entry =
                            table.entry(Match::default().keys(id, v6), 1, vec![]).with_priority(DEFAULT_PRIORITY);
                        self.add(entry, vpc.name.at, format_args!("VPC {name}: acl_default deny"));
                    }
                }
            }
        }
    }

    fn rule(&mut self, vpc: u32, name: &str, rule: &AclRule, egress: bool, at: crate::position::Position) {
        let tables = if egress { &self.api.acl_out } else { &self.api.acl_in };
        let given = rule.from.as_ref().or(rule.to.as_ref());
        for (v6, table) in tables.iter().enumerate() {
            if given.is_some_and(|prefix| usize::from(prefix.0.addr().is_ipv6()) != v6) {
                continue;
            }
            let direction = if egress { "egress" } else { "ingress" };
            let verdict = if rule.action == Verdict::Permit { "permit" } else { "deny" };
            for entry in entries(table, vpc, v6, rule) {
                self.add(entry, at, format_args!("VPC {name}: ACL {direction} {} {verdict}", rule.priority.value));
            }
        }
    }
}

/// The rule's entry, and for a permit rule about ports one more, for later fragments.
fn entries(table: &TableApi<2>, vpc: u32, v6: usize, rule: &AclRule) -> Vec<tables::TableEntry> {
    let protocol = match rule.protocol.as_ref().map(|p| p.value) {
        None | Some(Protocol::Any) => None,
        Some(Protocol::Icmp) => Some([1, 58][v6]),
        Some(Protocol::Number(n)) => Some(n),
    };
    let [from, to] = [&rule.from, &rule.to].map(|p| p.as_ref().map(|p| p.value));
    let [source_ports, ports] = [&rule.source_ports, &rule.ports].map(|p| p.as_ref().map(|p| p.value));
    let about_ports = source_ports.is_some() || ports.is_some();
    let flow = Match { from, to, protocol, source_ports, ports, later_fragment: about_ports.then_some(false) };
    let later = Match { source_ports: None, ports: None, later_fragment: Some(true), ..flow };
    let action = usize::from(rule.action == Verdict::Deny);
    let matches = if about_ports && rule.action == Verdict::Permit { vec![flow, later] } else { vec![flow] };
    let priority = DEFAULT_PRIORITY.saturating_add(rule.priority.value as i32);
    matches.iter().map(|m| table.entry(m.keys(vpc, v6), action, vec![]).with_priority(priority)).collect()
}

/// What a rule matches; `None` is anything.
#[derive(Clone, Copy, Default)]
struct Match {
    from: Option<Prefix>,
    to: Option<Prefix>,
    protocol: Option<u8>,
    source_ports: Option<Ports>,
    ports: Option<Ports>,
    later_fragment: Option<bool>,
}

impl Match {
    /// The keys of the table of IPv4 (0) or IPv6 (1).
    fn keys(&self, vpc: u32, v6: usize) -> Vec<KeyMatch> {
        let width = [32, 128][v6];
        vec![
            exact(vpc),
            within(self.from, width),
            within(self.to, width),
            self.protocol.map_or(ternary(0, 0), |p| ternary(p.into(), 0xff)),
            range(self.source_ports),
            range(self.ports),
            self.later_fragment.map_or(ternary(0, 0), |later| ternary(later.into(), 1)),
        ]
    }
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
