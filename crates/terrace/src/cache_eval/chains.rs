//! From rules to entries: each rule becomes a chain of entries, one in each table of a traversal.
//!
//! Each traversal has a VLAN, its *network*, which all of its entries name, and a share of the rules. A rule gives addresses, ports and protocol;
//! what else the tables look at is derived from these by a seeded hash: the source's MAC and port from the source prefix, the destination's MAC
//! and labels from the destination prefix. Along a traversal, one table *decides* on each field: the first that must match it (exact, lpm), else the
//! first that can (ternary). It matches what the rule asks of the field, and the other ternary keys are left open, so that the chain as a whole asks
//! what the rule asks, once. The fields that one table decides on are a *part*; [`super::flows`] draws flows part by part.

use super::fields::{Bits, FIELDS, Field, mix, prefixes};
use super::rules::Rule;
use super::vswitch::{END, Kind, Step, Traversal, Vswitch};
use entries::{ActionSpec, TableEntry, WriteBatch};
use ir::{ActionCall, ActionId, KeyMatch, MatchKind, Pipeline, TableId};
use num_bigint::BigUint;
use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;

/// Ports that the stations of a network are at.
const PORTS: u64 = 4;
/// Ports that packets leave through.
const OUT_PORTS: u64 = 8;
/// The first one of those.
const FIRST_OUT_PORT: u64 = 1000;
/// The outer labels of a network: tunnels are few.
const TUNNELS: u64 = 16;

/// A traversal with its rules.
#[derive(Clone, Debug)]
pub struct Network {
    /// Its VLAN, from 1.
    pub vlan: u16,
    /// The traversal, by its position.
    pub traversal: usize,
    /// Its rules, by their positions, the strongest first.
    pub rules: Vec<usize>,
    /// The fields that each table decides on, in the order of tables; last those that none looks at.
    pub parts: Vec<Vec<Field>>,
}

/// What a rule asks of packets on a network. Ports are prefixes, of which one must hold.
#[derive(Clone, Debug)]
pub struct Asked {
    /// What is asked of each field but ports, by [`Field::index`].
    pub bits: [Bits; FIELDS],
    /// Of the source's port.
    pub source_ports: Vec<Bits>,
    /// Of the destination's.
    pub destination_ports: Vec<Bits>,
}

impl Asked {
    /// What may be asked of a field: one for all but ports.
    pub fn of(&self, field: Field) -> &[Bits] {
        match field {
            Field::TpSrc => &self.source_ports,
            Field::TpDst => &self.destination_ports,
            other => std::slice::from_ref(&self.bits[other.index()]),
        }
    }
}

/// All networks of a pipeline, and their entries.
#[derive(Clone, Debug)]
pub struct Chains {
    /// One for each traversal, in their order.
    pub networks: Vec<Network>,
    /// The entries.
    pub entries: WriteBatch,
    /// How many each table has.
    pub counts: HashMap<TableId, usize>,
}

/// Spreads rules over the traversals by their weights and makes their entries.
///
/// # Errors
/// If the traversals ask of the program what it has not: a contradiction within the carried files.
pub fn build(vswitch: &Vswitch, rules: &[Rule], seed: u64) -> Result<Chains, String> {
    let networks = spread(vswitch, rules.len(), seed);
    let mut writer = Writer { pipeline: &vswitch.pipeline, seed, made: HashMap::new(), entries: Vec::new() };
    for network in &networks {
        let traversal = &vswitch.traversals[network.traversal];
        for &at in &network.rules {
            let asked = asked(&rules[at], traversal.kind, network.vlan, seed);
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
    Ok(Chains { networks, entries, counts })
}

/// Each traversal gets at least one rule, as long as there are enough.
fn spread(vswitch: &Vswitch, rules: usize, seed: u64) -> Vec<Network> {
    let one = |(at, traversal): (usize, &Traversal)| Network {
        vlan: at as u16 + 1,
        traversal: at,
        rules: Vec::new(),
        parts: parts(&vswitch.pipeline, traversal),
    };
    let mut networks: Vec<Network> = vswitch.traversals.iter().enumerate().map(one).collect();
    let total: f64 = vswitch.traversals.iter().map(|traversal| traversal.weight).sum();
    for rule in 0..rules {
        let mut left = total * (mix(seed, &[1, rule as u64]) >> 11) as f64 / (1_u64 << 53) as f64;
        let chosen = vswitch.traversals.iter().position(|traversal| {
            left -= traversal.weight;
            left < 0.0
        });
        let count = networks.len();
        // The first rules go round, so that no network is without.
        let chosen = if rule < count { rule } else { chosen.unwrap_or(count - 1) };
        networks[chosen].rules.push(rule);
    }
    networks
}

/// Whether packets of a kind have a field.
fn has(kind: Kind, field: Field) -> bool {
    match field {
        Field::InPort | Field::Vlan | Field::EthType | Field::DlSrc | Field::DlDst => true,
        Field::NwSrc | Field::NwDst | Field::NwProto => !matches!(kind, Kind::Ipv6 | Kind::Arp | Kind::Control),
        Field::TpSrc | Field::TpDst => !matches!(kind, Kind::Arp | Kind::Control),
        Field::MplsOuter | Field::MplsInner => kind == Kind::Mpls,
        Field::Ipv6Dst => kind == Kind::Ipv6,
    }
}

/// Fields that are the same for all packets of a network: no table decides on them.
fn same_for_all(field: Field) -> bool {
    matches!(field, Field::Vlan | Field::EthType)
}

/// The fields that each table decides on, and last the others.
pub fn parts(pipeline: &Pipeline, traversal: &Traversal) -> Vec<Vec<Field>> {
    let mut owner: [Option<usize>; FIELDS] = [None; FIELDS];
    for must in [true, false] {
        let mut rewritten = false;
        for (at, step) in traversal.steps.iter().enumerate() {
            let Some(action) = step.action else { continue };
            for key in &step.keys {
                let Some(field) = key.field else { continue };
                let mac = matches!(field, Field::DlSrc | Field::DlDst);
                let matched = matches!(key.kind, MatchKind::Exact | MatchKind::Lpm) == must;
                if matched && has(traversal.kind, field) && !same_for_all(field) && !(mac && rewritten) {
                    owner[field.index()].get_or_insert(at);
                }
            }
            rewritten |= parameter(pipeline, action, "dl_dst");
        }
    }
    // A station is at one port: who draws it draws both.
    owner[Field::InPort.index()] = owner[Field::DlSrc.index()].or(owner[Field::InPort.index()]);
    let mut parts = vec![Vec::new(); traversal.steps.len() + 1];
    for field in Field::ALL.into_iter().filter(|field| has(traversal.kind, *field) && !same_for_all(*field)) {
        parts[owner[field.index()].unwrap_or(traversal.steps.len())].push(field);
    }
    parts
}

fn parameter(pipeline: &Pipeline, action: ActionId, name: &str) -> bool {
    pipeline.actions[action].params.iter().any(|param| param.name == name)
}

/// What a rule asks of packets of a kind on a VLAN.
pub fn asked(rule: &Rule, kind: Kind, vlan: u16, seed: u64) -> Asked {
    let (source, destination) = (rule.source, rule.destination);
    let hash = |what: u64, prefix: super::rules::Prefix| {
        mix(seed, &[what, u64::from(vlan), u64::from(prefix.address), u64::from(prefix.len)])
    };
    let station = hash(2, source);
    let mut bits = [Bits::ANY; FIELDS];
    let mut exact = |field: Field, value: u64| bits[field.index()] = Bits::exact(field, u128::from(value));
    exact(Field::InPort, u64::from(vlan) * PORTS + station % PORTS);
    exact(Field::Vlan, u64::from(vlan));
    exact(Field::EthType, u64::from(eth_type(kind)));
    exact(Field::DlSrc, mac(station));
    exact(Field::DlDst, mac(hash(3, destination)));
    exact(Field::MplsOuter, 16 + hash(4, destination) % TUNNELS);
    exact(Field::MplsInner, 16 + (hash(5, destination) >> 44).min((1 << 20) - 17));
    if let Some(protocol) = rule.protocol {
        exact(Field::NwProto, u64::from(protocol));
    }
    if kind == Kind::Control {
        // IEEE 802.1D: the group addresses that no bridge forwards.
        exact(Field::DlDst, 0x0180_c200_0000 | (station % 16));
    }
    let mut prefix = |field: Field, value: u128, len: u32| bits[field.index()] = Bits::prefix(field, value, len);
    prefix(Field::NwSrc, source.address.into(), source.len.into());
    prefix(Field::NwDst, destination.address.into(), destination.len.into());
    prefix(Field::Ipv6Dst, IPV6_SITE | u128::from(destination.address), 96 + u32::from(destination.len));
    if kind == Kind::Multicast {
        prefix(
            Field::NwDst,
            u128::from(0xe800_0000 | destination.address >> 5),
            5 + u32::from(destination.len.min(27)),
        );
        prefix(Field::DlDst, 0x0100_5e00_0000, 25);
    }
    let ported = matches!(rule.protocol, Some(6 | 17));
    let ports = |(lo, hi): (u16, u16)| if ported { prefixes(lo, hi) } else { vec![Bits::ANY] };
    Asked { bits, source_ports: ports(rule.source_ports), destination_ports: ports(rule.destination_ports) }
}

/// 2001:db8::/96 (RFC 3849), which stands for the IPv4 addresses of rules in IPv6 traffic.
pub const IPV6_SITE: u128 = 0x2001_0db8 << 96;

/// A locally administered address of one station.
fn mac(hash: u64) -> u64 {
    0x0200_0000_0000 | (hash & 0xff_ffff_ffff)
}

/// What the frame holds behind the VLAN tag.
pub fn eth_type(kind: Kind) -> u16 {
    match kind {
        Kind::Ipv4 | Kind::Multicast => 0x0800,
        Kind::Ipv6 => 0x86dd,
        Kind::Mpls => 0x8847,
        Kind::Arp => 0x0806,
        Kind::Control => 0x88cc,
    }
}

/// Makes entries, none twice.
struct Writer<'a> {
    pipeline: &'a Pipeline,
    seed: u64,
    made: HashMap<(TableId, Vec<KeyMatch>), usize>,
    entries: Vec<TableEntry>,
}

impl Writer<'_> {
    fn chain(
        &mut self,
        traversal: &Traversal,
        parts: &[Vec<Field>],
        asked: Asked,
        priority: i32,
    ) -> Result<(), String> {
        let mut asked = asked;
        for (at, step) in traversal.steps.iter().enumerate() {
            let Some(action) = step.action else { continue };
            let next = traversal.steps.get(at + 1).map_or(END, |step| step.number);
            let mut rewritten = None;
            for keys in self.keys(step, &parts[at], traversal.kind, &asked)? {
                let call = self.call(step.table, action, &keys, next, asked.bits[Field::Vlan.index()].value as u64)?;
                rewritten = rewritten.or_else(|| self.new_macs(&call));
                self.insert(step.table, keys, call, priority)?;
            }
            if let Some([source, destination]) = rewritten {
                asked.bits[Field::DlSrc.index()] = source;
                asked.bits[Field::DlDst.index()] = destination;
            }
        }
        Ok(())
    }

    /// The keys of a rule's entries in a table: several if it has ranges of ports.
    fn keys(&self, step: &Step, part: &[Field], kind: Kind, asked: &Asked) -> Result<Vec<Vec<KeyMatch>>, String> {
        let mut all = vec![Vec::new()];
        for key in &step.keys {
            let decides = key.field.is_some_and(|field| part.contains(&field) || same_for_all(field));
            let choices: &[Bits] = match key.field {
                // A table asks for 0 in what a packet has not.
                Some(field) if has(kind, field) && (decides || key.kind != MatchKind::Ternary) => asked.of(field),
                _ => &[Bits::ANY],
            };
            let one = |bits: &Bits| key_match(key.kind, *bits);
            let choices: Vec<KeyMatch> = choices.iter().map(one).collect::<Result<_, _>>()?;
            let longer = |keys: Vec<KeyMatch>| {
                let with = move |choice: &KeyMatch| keys.iter().cloned().chain([choice.clone()]).collect::<Vec<_>>();
                choices.iter().map(with).collect::<Vec<_>>()
            };
            all = all.into_iter().flat_map(longer).collect();
        }
        Ok(all)
    }

    /// What an entry does is decided by its keys, so that rules can share it.
    fn call(
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
                "dl_dst" => mac(hash),
                "dl_src" | "mac" => 0x02ff_0000_0000 | vlan,
                "label" => 16 + hash % 1_000_000,
                "dscp" => 1 + vlan % 63,
                other => return Err(format!("`{}`: nobody knows what `{other}` is", declared.preamble.name)),
            }))
        };
        Ok(ActionCall { action, args: declared.params.iter().map(argument).collect::<Result<_, String>>()? })
    }

    /// The MACs that an action writes, source first.
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
            // Of two rules that ask a table for the same, the first is stronger. What they do there is the same.
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
