//! Turns rules into entries: each rule becomes a chain of entries, one in each table of a
//! traversal.
//!
//! Each traversal has a VLAN, its *network*, which is part of the match of all its entries, and a
//! share of the rules. A rule gives addresses, ports and protocol. The other fields that tables
//! match on are derived from these by a seeded hash: the source's MAC and port from the source
//! prefix, the destination's MAC and labels from the destination prefix.
//!
//! Along a traversal, one table *decides* on each field: the first table that must match the field
//! (exact, lpm), or else the first that can (ternary). That table matches the rule's bits of the
//! field. The other ternary keys on the field are wildcards, so that the chain as a whole matches
//! the rule's bits exactly once. The fields that one table decides on are a *part*;
//! [`super::flows`] draws flows part by part.

use super::fields::{Bits, FIELDS, Field, mix, prefixes};
use super::rules::Rule;
use super::vswitch::{END, PacketType, Traversal, TraversalStep, Vswitch};
use entries::{ActionSpec, TableEntry, WriteBatch};
use ir::{ActionCall, ActionId, KeyMatch, MatchKind, Pipeline, TableId};
use num_bigint::BigUint;
use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;

/// Number of ingress ports per network. Stations are distributed over them.
const PORTS: u64 = 4;
/// Number of egress ports.
const OUT_PORTS: u64 = 8;
/// Number of the first egress port.
const FIRST_OUT_PORT: u64 = 1000;
/// Number of outer labels per network. It is small because networks have few tunnels.
const TUNNELS: u64 = 16;

/// A traversal with its rules.
#[derive(Clone, Debug)]
pub struct Network {
    /// VLAN, from 1.
    pub vlan: u16,
    /// Index of the traversal.
    pub traversal: usize,
    /// Indices of the rules, highest precedence first.
    pub rules: Vec<usize>,
    /// Fields that each table decides on, in table order. The last element holds the fields that no
    /// table decides on.
    pub parts: Vec<Vec<Field>>,
}

/// Match of a rule on one network. Port ranges are lists of prefixes, of which one must match.
#[derive(Clone, Debug)]
pub struct RuleMatch {
    /// Match of each field except ports, by [`Field::index`].
    pub bits: [Bits; FIELDS],
    /// Prefixes of the source port range.
    pub source_ports: Vec<Bits>,
    /// Prefixes of the destination port range.
    pub destination_ports: Vec<Bits>,
}

impl RuleMatch {
    /// Returns the alternative matches of a field: one for each field except ports.
    pub fn of(&self, field: Field) -> &[Bits] {
        match field {
            Field::TpSrc => &self.source_ports,
            Field::TpDst => &self.destination_ports,
            other => std::slice::from_ref(&self.bits[other.index()]),
        }
    }
}

/// All networks of a pipeline with their entries.
#[derive(Clone, Debug)]
pub struct RuleChains {
    /// Networks, one per traversal, in traversal order.
    pub networks: Vec<Network>,
    /// Writes that install all entries.
    pub entries: WriteBatch,
    /// Number of entries of each table.
    pub counts: HashMap<TableId, usize>,
}

/// Distributes rules over the traversals by weight and builds their entries.
///
/// # Errors
/// If a traversal names something that the program lacks. The built-in files then contradict each
/// other.
pub fn build_chains(vswitch: &Vswitch, rules: &[Rule], seed: u64) -> Result<RuleChains, String> {
    let networks = assign_rules(vswitch, rules.len(), seed);
    let mut writer = ChainBuilder { pipeline: &vswitch.pipeline, seed, made: HashMap::new(), entries: Vec::new() };
    for network in &networks {
        let traversal = &vswitch.traversals[network.traversal];
        for &at in &network.rules {
            let asked = rule_match(&rules[at], traversal.kind, network.vlan, seed);
            let priority = i32::try_from(rules.len() - at).unwrap_or(i32::MAX);
            writer.chain(traversal, &network.parts, asked, priority)?;
        }
    }
    let mut counts = HashMap::new();
    writer.entries.iter().for_each(|entry| *counts.entry(entry.table).or_default() += 1);
    let mut entries = WriteBatch::new();
    for entry in writer.entries {
        entries.insert(entry);
    }
    Ok(RuleChains { networks, entries, counts })
}

/// Distributes rules over networks. Each traversal gets at least one rule if there are enough
/// rules.
/// Rules are drawn by the traversals' weights.
fn assign_rules(vswitch: &Vswitch, rules: usize, seed: u64) -> Vec<Network> {
    let new_network = |(index, traversal): (usize, &Traversal)| Network {
        vlan: index as u16 + 1,
        traversal: index,
        rules: Vec::new(),
        parts: decided_fields(&vswitch.pipeline, traversal),
    };
    let mut networks: Vec<Network> = vswitch.traversals.iter().enumerate().map(new_network).collect();
    let total: f64 = vswitch.traversals.iter().map(|traversal| traversal.weight).sum();
    for rule in 0..rules {
        let mut remaining = total * (mix(seed, &[1, rule as u64]) >> 11) as f64 / (1_u64 << 53) as f64;
        let network = vswitch.traversals.iter().position(|traversal| {
            remaining -= traversal.weight;
            remaining < 0.0
        });
        let count = networks.len();
        // The first rules are dealt in turn, so that every network has a rule.
        let network = if rule < count { rule } else { network.unwrap_or(count - 1) };
        networks[network].rules.push(rule);
    }
    networks
}

/// Returns whether packets of this type have the field.
fn has_field(kind: PacketType, field: Field) -> bool {
    match field {
        Field::InPort | Field::Vlan | Field::EthType | Field::DlSrc | Field::DlDst => true,
        Field::NwSrc | Field::NwDst | Field::NwProto => {
            !matches!(kind, PacketType::Ipv6 | PacketType::Arp | PacketType::Control)
        }
        Field::TpSrc | Field::TpDst => !matches!(kind, PacketType::Arp | PacketType::Control),
        Field::MplsOuter | Field::MplsInner => kind == PacketType::Mpls,
        Field::Ipv6Dst => kind == PacketType::Ipv6,
    }
}

/// Returns whether a field is constant for all packets of a network. No table decides on such
/// fields.
fn same_for_all(field: Field) -> bool {
    matches!(field, Field::Vlan | Field::EthType)
}

/// Returns the fields that each table decides on, followed by the remaining fields. A field belongs
/// to the first table that must match it (exact or LPM), otherwise to the first that may. MAC
/// addresses do not count after a table that rewrites them.
pub fn decided_fields(pipeline: &Pipeline, traversal: &Traversal) -> Vec<Vec<Field>> {
    let mut owner: [Option<usize>; FIELDS] = [None; FIELDS];
    for only_required in [true, false] {
        let mut are_macs_rewritten = false;
        for (index, step) in traversal.steps.iter().enumerate() {
            let Some(action) = step.action else { continue };
            for key in &step.keys {
                let Some(field) = key.field else { continue };
                let is_mac = matches!(field, Field::DlSrc | Field::DlDst);
                let is_in_round = matches!(key.kind, MatchKind::Exact | MatchKind::Lpm) == only_required;
                if is_in_round
                    && has_field(traversal.kind, field)
                    && !same_for_all(field)
                    && !(is_mac && are_macs_rewritten)
                {
                    owner[field.index()].get_or_insert(index);
                }
            }
            are_macs_rewritten |= parameter(pipeline, action, "dl_dst");
        }
    }
    // A station is on one port, so the source MAC and the port are drawn together.
    owner[Field::InPort.index()] = owner[Field::DlSrc.index()].or(owner[Field::InPort.index()]);
    let mut parts = vec![Vec::new(); traversal.steps.len() + 1];
    for field in Field::ALL.into_iter().filter(|field| has_field(traversal.kind, *field) && !same_for_all(*field)) {
        parts[owner[field.index()].unwrap_or(traversal.steps.len())].push(field);
    }
    parts
}

fn parameter(pipeline: &Pipeline, action: ActionId, name: &str) -> bool {
    pipeline.actions[action].params.iter().any(|param| param.name == name)
}

/// Returns the match of a rule for packets of a type on a VLAN.
/// Addresses of stations and labels follow from hashes of the rule's prefixes, so that equal
/// prefixes have equal stations.
pub fn rule_match(rule: &Rule, kind: PacketType, vlan: u16, seed: u64) -> RuleMatch {
    let (source, destination) = (rule.source, rule.destination);
    let hash = |purpose: u64, prefix: super::rules::Prefix| {
        mix(seed, &[purpose, u64::from(vlan), u64::from(prefix.address), u64::from(prefix.len)])
    };
    let station = hash(2, source);
    let mut bits = [Bits::ANY; FIELDS];
    let mut exact = |field: Field, value: u64| bits[field.index()] = Bits::exact(field, u128::from(value));
    exact(Field::InPort, u64::from(vlan) * PORTS + station % PORTS);
    exact(Field::Vlan, u64::from(vlan));
    exact(Field::EthType, u64::from(eth_type(kind)));
    exact(Field::DlSrc, station_mac(station));
    exact(Field::DlDst, station_mac(hash(3, destination)));
    exact(Field::MplsOuter, 16 + hash(4, destination) % TUNNELS);
    exact(Field::MplsInner, 16 + (hash(5, destination) >> 44).min((1 << 20) - 17));
    if let Some(protocol) = rule.protocol {
        exact(Field::NwProto, u64::from(protocol));
    }
    if kind == PacketType::Control {
        // IEEE 802.1D: group addresses that bridges never forward.
        exact(Field::DlDst, 0x0180_c200_0000 | (station % 16));
    }
    let mut prefix = |field: Field, value: u128, len: u32| bits[field.index()] = Bits::prefix(field, value, len);
    prefix(Field::NwSrc, source.address.into(), source.len.into());
    prefix(Field::NwDst, destination.address.into(), destination.len.into());
    prefix(Field::Ipv6Dst, IPV6_SITE | u128::from(destination.address), 96 + u32::from(destination.len));
    if kind == PacketType::Multicast {
        prefix(
            Field::NwDst,
            u128::from(0xe800_0000 | destination.address >> 5),
            5 + u32::from(destination.len.min(27)),
        );
        prefix(Field::DlDst, 0x0100_5e00_0000, 25);
    }
    let has_ports = matches!(rule.protocol, Some(6 | 17));
    let ports = |(lo, hi): (u16, u16)| if has_ports { prefixes(lo, hi) } else { vec![Bits::ANY] };
    RuleMatch { bits, source_ports: ports(rule.source_ports), destination_ports: ports(rule.destination_ports) }
}

/// 2001:db8::/96 (RFC 3849). Represents the IPv4 addresses of rules in IPv6 traffic.
pub const IPV6_SITE: u128 = 0x2001_0db8 << 96;

/// Returns a locally administered MAC address of one station.
fn station_mac(hash: u64) -> u64 {
    0x0200_0000_0000 | (hash & 0xff_ffff_ffff)
}

/// Returns the EtherType after the VLAN tag.
pub fn eth_type(kind: PacketType) -> u16 {
    match kind {
        PacketType::Ipv4 | PacketType::Multicast => 0x0800,
        PacketType::Ipv6 => 0x86dd,
        PacketType::Mpls => 0x8847,
        PacketType::Arp => 0x0806,
        PacketType::Control => 0x88cc,
    }
}

/// Builds entries and skips duplicates.
struct ChainBuilder<'a> {
    pipeline: &'a Pipeline,
    seed: u64,
    made: HashMap<(TableId, Vec<KeyMatch>), usize>,
    entries: Vec<TableEntry>,
}

impl ChainBuilder<'_> {
    /// Inserts a rule's entries in the tables of a traversal. `parts` has the fields that each
    /// table decides on. A table that rewrites MAC addresses changes the match of later tables.
    fn chain(
        &mut self,
        traversal: &Traversal,
        parts: &[Vec<Field>],
        rule_match: RuleMatch,
        priority: i32,
    ) -> Result<(), String> {
        let mut rule_match = rule_match;
        for (index, step) in traversal.steps.iter().enumerate() {
            let Some(action) = step.action else { continue };
            let next = traversal.steps.get(index + 1).map_or(END, |step| step.number);
            let mut new_macs = None;
            for keys in self.entry_keys(step, &parts[index], traversal.kind, &rule_match)? {
                let call = self.action_call(
                    step.table,
                    action,
                    &keys,
                    next,
                    rule_match.bits[Field::Vlan.index()].value as u64,
                )?;
                new_macs = new_macs.or_else(|| self.new_macs(&call));
                self.insert(step.table, keys, call, priority)?;
            }
            if let Some([source, destination]) = new_macs {
                rule_match.bits[Field::DlSrc.index()] = source;
                rule_match.bits[Field::DlDst.index()] = destination;
            }
        }
        Ok(())
    }

    /// Returns the keys of a rule's entries in a table: several if the table decides on port
    /// ranges.
    fn entry_keys(
        &self,
        step: &TraversalStep,
        part: &[Field],
        kind: PacketType,
        rule_match: &RuleMatch,
    ) -> Result<Vec<Vec<KeyMatch>>, String> {
        let mut key_lists = vec![Vec::new()];
        for key in &step.keys {
            let decides = key.field.is_some_and(|field| part.contains(&field) || same_for_all(field));
            let choices: &[Bits] = match key.field {
                // Tables match 0 for fields that the packet lacks.
                Some(field) if has_field(kind, field) && (decides || key.kind != MatchKind::Ternary) => {
                    rule_match.of(field)
                }
                _ => &[Bits::ANY],
            };
            let to_match = |bits: &Bits| key_match(key.kind, *bits);
            let choices: Vec<KeyMatch> = choices.iter().map(to_match).collect::<Result<_, _>>()?;
            let extend_by_choices = |keys: Vec<KeyMatch>| {
                let with_choice =
                    move |choice: &KeyMatch| keys.iter().cloned().chain([choice.clone()]).collect::<Vec<_>>();
                choices.iter().map(with_choice).collect::<Vec<_>>()
            };
            key_lists = key_lists.into_iter().flat_map(extend_by_choices).collect();
        }
        Ok(key_lists)
    }

    /// Returns the action call of an entry. It depends only on the keys, so that rules can share
    /// the entry.
    fn action_call(
        &self,
        table: TableId,
        action: ActionId,
        keys: &[KeyMatch],
        next: u8,
        vlan: u64,
    ) -> Result<ActionCall, String> {
        let text = format!("{}{keys:?}", self.pipeline.tables[table].preamble.name);
        let bytes: Vec<u64> = text.bytes().map(u64::from).collect();
        let hash = mix(self.seed, &bytes);
        let declared = &self.pipeline.actions[action];
        let argument = |param: &ir::Param| {
            Ok(BigUint::from(match param.name.as_str() {
                "next" => u64::from(next),
                "port" => FIRST_OUT_PORT + hash % OUT_PORTS,
                "dl_dst" => station_mac(hash),
                "dl_src" | "mac" => 0x02ff_0000_0000 | vlan,
                "label" => 16 + hash % 1_000_000,
                "dscp" => 1 + vlan % 63,
                other => return Err(format!("`{}`: unknown parameter `{other}`", declared.preamble.name)),
            }))
        };
        Ok(ActionCall { action, args: declared.params.iter().map(argument).collect::<Result<_, String>>()? })
    }

    /// Returns the MAC addresses that an action writes, source first.
    fn new_macs(&self, call: &ActionCall) -> Option<[Bits; 2]> {
        let params = &self.pipeline.actions[call.action].params;
        let value = |name: &str, field: Field| {
            let at = params.iter().position(|param| param.name == name)?;
            Some(Bits::exact(field, u128::try_from(&call.args[at]).ok()?))
        };
        Some([value("dl_src", Field::DlSrc)?, value("dl_dst", Field::DlDst)?])
    }

    fn insert(&mut self, table: TableId, keys: Vec<KeyMatch>, call: ActionCall, priority: i32) -> Result<(), String> {
        let action = ActionSpec::Call(call);
        match self.made.entry((table, keys)) {
            // If two rules have the same match in a table, the first has the higher precedence.
            // Their actions there are equal.
            Slot::Occupied(made) if self.entries[*made.get()].action == action => {}
            Slot::Occupied(_) => {
                let name = &self.pipeline.tables[table].preamble.name;
                return Err(format!("two traversals want different things of one entry of `{name}`"));
            }
            Slot::Vacant(free) => {
                let entry = TableEntry::new(table, free.key().1.clone(), action);
                let ranked = self.pipeline.tables[table].has_priority();
                free.insert(self.entries.len());
                self.entries.push(if ranked { entry.with_priority(priority) } else { entry });
            }
        }
        Ok(())
    }
}

fn key_match(kind: MatchKind, bits: Bits) -> Result<KeyMatch, String> {
    let value = BigUint::from(bits.value);
    match kind {
        MatchKind::Exact => Ok(KeyMatch::Exact(value)),
        MatchKind::Ternary => Ok(KeyMatch::Ternary { value, mask: BigUint::from(bits.mask) }),
        MatchKind::Lpm => Ok(KeyMatch::Lpm { value, prefix_len: bits.mask.count_ones() }),
        other => Err(format!("the pipelines have no keys of kind {other:?}")),
    }
}
