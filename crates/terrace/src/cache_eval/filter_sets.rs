//! Synthetic filter sets in the style of ClassBench: nested prefixes of a few sites, well-known
//! services, few protocols.
//!
//! No ClassBench seed file is read; only the overall structure is similar. An access list consists
//! mostly of pairs of hosts with services that few rules share. A third of the rules match
//! networks.

use super::rules::{Prefix, Rule};
use fastrand::Rng;

/// Service ports that rules match, most frequent first.
const SERVICES: [u16; 16] = [80, 443, 53, 25, 1521, 22, 123, 389, 8080, 3306, 5432, 6379, 9092, 161, 514, 5060];

/// Generates a filter set of `count` distinct rules. The same seed gives the same set.
pub fn generate(count: usize, seed: u64) -> Vec<Rule> {
    let mut rng = Rng::with_seed(seed);
    let sites: Vec<u32> = (0..32).map(|_| (rng.u32(1 << 24..224 << 24)) & 0xffff_0000).collect();
    let hosts = (count / 4).max(16) as u32;
    let mut seen = std::collections::HashSet::new();
    let mut rules = Vec::with_capacity(count);
    // Duplicates are drawn again. The set ends early if not enough distinct rules exist.
    for _ in 0..count.saturating_mul(20) {
        if rules.len() == count {
            break;
        }
        let rule = random_rule(&mut rng, &sites, hosts);
        if seen.insert(rule) {
            rules.push(rule);
        }
    }
    rules
}

fn random_rule(rng: &mut Rng, sites: &[u32], hosts: u32) -> Rule {
    let protocol = match rng.u8(..20) {
        0..=12 => Some(6),
        13..=16 => Some(17),
        17 => Some(1),
        _ => None,
    };
    let ports = matches!(protocol, Some(6 | 17));
    Rule {
        source: random_prefix(rng, sites, hosts),
        destination: random_prefix(rng, sites, hosts),
        source_ports: if ports && rng.u8(..10) == 0 { (1024, 65535) } else { (0, 65535) },
        destination_ports: if ports { random_service(rng) } else { (0, 65535) },
        protocol,
    }
}

/// Draws a host of a site mostly, else a subnet of the site, or the wildcard.
fn random_prefix(rng: &mut Rng, sites: &[u32], hosts: u32) -> Prefix {
    let site = sites[rng.usize(..sites.len())];
    let address = site | (rng.u32(..hosts.min(1 << 16)).wrapping_mul(0x9e37) & 0xffff);
    let len = match rng.u8(..100) {
        0..=64 => 32,
        65..=79 => rng.u8(24..32),
        80..=97 => rng.u8(16..25),
        _ => 0,
    };
    let mask = u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0);
    Prefix { address: address & mask, len }
}

fn random_service(rng: &mut Rng) -> (u16, u16) {
    match rng.u8(..20) {
        0..=12 => {
            let service = SERVICES[rng.usize(..SERVICES.len()).min(rng.usize(..SERVICES.len()))];
            (service, service)
        }
        13..=16 => {
            let port = rng.u16(1024..);
            (port, port)
        }
        17 => (1024, 65535),
        _ => (0, 65535),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn a_set_repeats_by_its_seed_and_has_no_rule_twice() {
        let rules = generate(2000, 7);
        assert_eq!(rules.len(), 2000);
        assert_eq!(rules, generate(2000, 7));
        assert_ne!(rules, generate(2000, 8));
        assert_eq!(rules.iter().collect::<HashSet<_>>().len(), 2000);
        let hosts = rules.iter().filter(|rule| rule.destination.len == 32).count();
        assert!((1000..1600).contains(&hosts), "{hosts}");
    }

    #[test]
    fn only_protocols_with_ports_have_ports() {
        for rule in generate(1000, 1) {
            if !matches!(rule.protocol, Some(6 | 17)) {
                assert_eq!((rule.source_ports, rule.destination_ports), ((0, 65535), (0, 65535)));
            }
        }
    }
}
