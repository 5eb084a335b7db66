//! ACL rules.
//!
//! A rule that says no addresses holds for both IP versions. A rule about ports leaves out fragments behind the first, which
//! have none; what the first fragment is denied, the others can't deliver.

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
                        let keys = keys(id, v6, None, None, None, None, None);
                        let entry = table.entry(keys, 1, vec![]).with_priority(DEFAULT_PRIORITY);
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
            let entry = entry(table, vpc, v6, rule);
            let direction = if egress { "egress" } else { "ingress" };
            let verdict = if rule.action == Verdict::Permit { "permit" } else { "deny" };
            self.add(entry, at, format_args!("VPC {name}: ACL {direction} {} {verdict}", rule.priority.value));
        }
    }
}

fn entry(table: &TableApi<2>, vpc: u32, v6: usize, rule: &AclRule) -> tables::TableEntry {
    let prefix = |p: &Option<crate::position::At<Prefix>>| p.as_ref().map(|p| p.value);
    let ports = |p: &Option<crate::position::At<Ports>>| p.as_ref().map(|p| p.value);
    let protocol = match rule.protocol.as_ref().map(|p| p.value) {
        None | Some(Protocol::Any) => None,
        Some(Protocol::Icmp) => Some([1, 58][v6]),
        Some(Protocol::Number(n)) => Some(n),
    };
    let keys =
        keys(vpc, v6, prefix(&rule.from), prefix(&rule.to), protocol, ports(&rule.source_ports), ports(&rule.ports));
    let action = usize::from(rule.action == Verdict::Deny);
    table.entry(keys, action, vec![]).with_priority(DEFAULT_PRIORITY.saturating_add(rule.priority.value as i32))
}

fn keys(
    vpc: u32,
    v6: usize,
    from: Option<Prefix>,
    to: Option<Prefix>,
    protocol: Option<u8>,
    source_ports: Option<Ports>,
    ports: Option<Ports>,
) -> Vec<KeyMatch> {
    let width = [32, 128][v6];
    let has_ports = source_ports.is_some() || ports.is_some();
    let fragment = if has_ports { ternary(0, 1) } else { ternary(0, 0) };
    vec![
        exact(vpc),
        within(from, width),
        within(to, width),
        protocol.map_or(ternary(0, 0), |p| ternary(p.into(), 0xff)),
        range(source_ports),
        range(ports),
        fragment,
    ]
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
