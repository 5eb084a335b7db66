//! Flows: packets that walk a network's traversal, with fields that come from several of its rules.
//!
//! For a flow, a network is drawn by the traversals' weights, and for each part of its fields (see [`super::chains`]) a rule: the packet has in these
//! fields what the rule asks for. So each table on the way finds an entry, and flows share entries more often the more often the same rules are
//! drawn. That is what *locality* says: the rule of a part is drawn by Zipf's law over the first rules of a random order of the network's, of which each
//! part has another one. At high locality they are few, and some much more frequent than others; at low locality they are all, and alike.
//!
//! No two flows have the same fields.

use super::chains::{Asked, IPV6_SITE, Network, asked, eth_type};
use super::fields::{FIELDS, Field, Values, mix};
use super::rules::Rule;
pub use super::vswitch::Locality;
use super::vswitch::{Kind, Vswitch};
use fastrand::Rng;
use std::collections::HashSet;

/// A flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Flow {
    /// Its network, by position.
    pub network: usize,
    /// What its packets are.
    pub kind: Kind,
    /// Its fields; 0 for what its packets have not.
    pub values: Values,
}

/// Draws `count` flows, or as many as there are: `workload` makes other ones, with other favourites, from the same rules.
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
    let with_rules = |network: &&Network| !network.rules.is_empty();
    let sources: Vec<Source> = networks
        .iter()
        .filter(with_rules)
        .map(|network| Source::new(vswitch, network, locality, seed, workload))
        .collect();
    let weights: Vec<f64> = sources.iter().map(|source| vswitch.traversals[source.network.traversal].weight).collect();
    let by_weight = Cumulative::new(weights.into_iter());
    let mut seen = HashSet::new();
    let mut flows = Vec::with_capacity(count);
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

/// Where a network's flows come from.
struct Source<'a> {
    network: &'a Network,
    kind: Kind,
    ranks: Cumulative,
    /// For each part, the network's rules in the order of their ranks.
    orders: Vec<Vec<usize>>,
}

impl<'a> Source<'a> {
    fn new(vswitch: &Vswitch, network: &'a Network, locality: Locality, seed: u64, workload: u64) -> Source<'a> {
        let order = |part: usize| {
            let mut rules = network.rules.clone();
            Rng::with_seed(mix(seed, &[11, workload, u64::from(network.vlan), part as u64])).shuffle(&mut rules);
            rules
        };
        let drawn = (network.rules.len() as f64 * locality.share).ceil() as usize;
        let ranks = 1..=drawn.clamp(1, network.rules.len());
        Source {
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
            let asked = asked(&rules[rule], self.kind, self.network.vlan, seed);
            for field in fields {
                values[field.index()] = value(&asked, *field, mix(seed, &[12, rule as u64, *field as u64, variant]));
            }
        }
        self.consistent(&mut values);
        values
    }

    /// What follows from other fields.
    fn consistent(&self, values: &mut Values) {
        if self.kind == Kind::Multicast {
            // RFC 1112, section 6.4: a group's MAC has the last 23 bits of its address.
            values[Field::DlDst.index()] = 0x0100_5e00_0000 | (values[Field::NwDst.index()] & 0x7f_ffff);
        }
        if self.kind == Kind::Ipv6 {
            debug_assert_eq!(values[Field::Ipv6Dst.index()] >> 32, IPV6_SITE >> 32);
        }
        let ported = matches!(values[Field::NwProto.index()], 6 | 17) || self.kind == Kind::Ipv6;
        if !ported {
            (values[Field::TpSrc.index()], values[Field::TpDst.index()]) = (0, 0);
        }
    }
}

/// A value that is what a rule asks for; where that is open, `hash` says.
fn value(asked: &Asked, field: Field, hash: u64) -> u128 {
    let choices = asked.of(field);
    let bits = choices[(hash % choices.len() as u64) as usize];
    let open = field.all_bits() & !bits.mask;
    match field {
        // A rule for all protocols is met by those with ports.
        Field::NwProto if bits.mask == 0 => [6, 17][(hash >> 7 & 1) as usize],
        _ => bits.value | (u128::from(hash.rotate_left(23)) & open),
    }
}

/// Draws positions by weights.
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
