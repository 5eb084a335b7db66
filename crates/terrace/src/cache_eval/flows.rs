//! Generates flows: packets that take a network's traversal, with fields from several of its rules.
//!
//! For each flow, a network is drawn by the weight of its traversal. For each part of the fields
//! (see [`super::chains`]) a rule is drawn, and the packet's fields of that part match this rule.
//! So each table on the path has a hit, and two flows share an entry if the same rule was drawn for
//! its part.
//!
//! *Locality* determines how often that happens. Each part orders the network's rules randomly, and
//! draws from the first of them by Zipf's law. At high locality few rules are drawn, some much more
//! often than others. At low locality all rules are drawn with equal probability.
//!
//! No two flows have the same fields.

use super::chains::{IPV6_SITE, Network, RuleMatch, eth_type, rule_match};
use super::fields::{FIELDS, Field, Values, mix};
use super::rules::Rule;
pub use super::vswitch::Locality;
use super::vswitch::{PacketType, Vswitch};
use fastrand::Rng;
use std::collections::HashSet;

/// A flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Flow {
    /// Index of the network.
    pub network: usize,
    /// Packet type.
    pub kind: PacketType,
    /// Field values; 0 for fields that the packet type lacks.
    pub values: Values,
}

/// Draws `count` distinct flows, or fewer if fewer exist. Different values of `workload` prefer
/// different rules of the same set.
pub fn draw(
    vswitch: &Vswitch,
    networks: &[Network],
    rules: &[Rule],
    count: usize,
    locality: Locality,
    seed: u64,
    workload: u64,
) -> Vec<Flow> {
    let mut rng = Rng::with_seed(mix(seed, &[10, workload]));
    let has_rules = |network: &&Network| !network.rules.is_empty();
    let sources: Vec<FlowGenerator> = networks
        .iter()
        .filter(has_rules)
        .map(|network| FlowGenerator::new(vswitch, network, locality, seed, workload))
        .collect();
    let weights: Vec<f64> = sources.iter().map(|source| vswitch.traversals[source.network.traversal].weight).collect();
    let by_weight = Cumulative::new(weights.into_iter());
    let mut seen = HashSet::new();
    let mut flows = Vec::with_capacity(count);
    // Repeated draws end the search, because there may be fewer flows than asked for.
    for _ in 0..count.saturating_mul(20) {
        if flows.len() == count || sources.is_empty() {
            break;
        }
        let source = &sources[by_weight.draw(&mut rng)];
        let values = source.values(rules, locality, seed, &mut rng);
        if seen.insert(values) {
            let network = networks.iter().position(|network| network.vlan == source.network.vlan).unwrap_or(0);
            flows.push(Flow { network, kind: source.kind, values });
        }
    }
    flows
}

/// Flow generator of one network.
struct FlowGenerator<'a> {
    network: &'a Network,
    kind: PacketType,
    ranks: Cumulative,
    /// For each part, the rules of the network in order of rank.
    orders: Vec<Vec<usize>>,
}

impl<'a> FlowGenerator<'a> {
    fn new(vswitch: &Vswitch, network: &'a Network, locality: Locality, seed: u64, workload: u64) -> FlowGenerator<'a> {
        let order = |part: usize| {
            let mut rules = network.rules.clone();
            Rng::with_seed(mix(seed, &[11, workload, u64::from(network.vlan), part as u64])).shuffle(&mut rules);
            rules
        };
        let drawn = (network.rules.len() as f64 * locality.share).ceil() as usize;
        let ranks = 1..=drawn.clamp(1, network.rules.len());
        FlowGenerator {
            network,
            kind: vswitch.traversals[network.traversal].kind,
            ranks: Cumulative::new(ranks.map(|rank| (rank as f64).powf(-locality.exponent))),
            orders: (0..network.parts.len()).map(order).collect(),
        }
    }

    fn values(&self, rules: &[Rule], locality: Locality, seed: u64, rng: &mut Rng) -> Values {
        let mut values = [0; FIELDS];
        values[Field::Vlan.index()] = self.network.vlan.into();
        values[Field::EthType.index()] = eth_type(self.kind).into();
        for (fields, order) in self.network.parts.iter().zip(&self.orders) {
            if fields.is_empty() {
                continue;
            }
            let rule = order[self.ranks.draw(rng)];
            let variant = rng.u64(..locality.variants.max(1));
            let asked = rule_match(&rules[rule], self.kind, self.network.vlan, seed);
            for field in fields {
                values[field.index()] =
                    field_value(&asked, *field, mix(seed, &[12, rule as u64, *field as u64, variant]));
            }
        }
        self.consistent(&mut values);
        values
    }

    /// Sets the fields that depend on other fields.
    fn consistent(&self, values: &mut Values) {
        if self.kind == PacketType::Multicast {
            // RFC 1112, section 6.4: the MAC of a group has the last 23 bits of its address.
            values[Field::DlDst.index()] = 0x0100_5e00_0000 | (values[Field::NwDst.index()] & 0x7f_ffff);
        }
        if self.kind == PacketType::Ipv6 {
            debug_assert_eq!(values[Field::Ipv6Dst.index()] >> 32, IPV6_SITE >> 32);
        }
        let ported = matches!(values[Field::NwProto.index()], 6 | 17) || self.kind == PacketType::Ipv6;
        if !ported {
            (values[Field::TpSrc.index()], values[Field::TpDst.index()]) = (0, 0);
        }
    }
}

/// Returns a value that matches the rule. Wildcard bits are taken from `hash`.
fn field_value(asked: &RuleMatch, field: Field, hash: u64) -> u128 {
    let choices = asked.of(field);
    let bits = choices[(hash % choices.len() as u64) as usize];
    let open = field.all_bits() & !bits.mask;
    match field {
        // A rule for all protocols is exercised by the protocols with ports.
        Field::NwProto if bits.mask == 0 => [6, 17][(hash >> 7 & 1) as usize],
        _ => bits.value | (u128::from(hash.rotate_left(23)) & open),
    }
}

/// Cumulative weights, to draw indices by weight.
struct Cumulative(Vec<f64>);

impl Cumulative {
    fn new(weights: impl Iterator<Item = f64>) -> Cumulative {
        let mut sum = 0.0;
        Cumulative(
            weights
                .map(|weight| {
                    sum += weight;
                    sum
                })
                .collect(),
        )
    }

    fn draw(&self, rng: &mut Rng) -> usize {
        let at = rng.f64() * self.0.last().copied().unwrap_or(0.0);
        self.0.partition_point(|sum| *sum <= at).min(self.0.len().saturating_sub(1))
    }
}
