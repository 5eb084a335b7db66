//! Ternary and range lookups by priority: ClassBench's rule sets compared with `rte_acl`, a cloud's
//! rules, and the cost of changes.
//!
//! Headers are drawn like ClassBench's (a rule, and a corner of it in each field), without
//! locality; or uniformly random, and then most match only the last rules.
#![allow(unsafe_code)] // what a lookup points to is read

use crate::data::{self, Rule};
use crate::peers::Eal;
use crate::peers::acl::{self, Acl, AclKey};
use crate::report::Report;
use crate::run::{EntrantComparison, Options, Unit};
use anyhow::ensure;
use ir::MatchKind;
use lookup::LookupKeyField;
use lookup::ternary::TernaryTable;
use std::collections::HashSet;
use std::time::Instant;

/// Group of the times of changes in the report.
pub const CHANGES: &str = "ternary, one rule added or removed";

/// Kinds of classified headers.
pub const TRACES: [&str; 2] = ["headers of rules", "random headers"];

/// Returns the name of the chart for a kind of headers.
pub fn chart(trace: &str) -> String {
    format!("ternary, {trace}")
}

/// Returns the name of a figure in [`CHANGES`].
pub fn change(set: &str, change: &str, quantile: &str) -> String {
    format!("{set}: {change}, {quantile}")
}

/// Names of ClassBench's rule sets.
pub const SETS: [&str; 3] = ["acl1_10k", "fw1_10k", "ipc1_10k"];

/// Number of headers, which are cycled through.
const HEADERS: usize = 1 << 16;

/// Number of keys in a batch, for both structures.
const BATCH: usize = 256;

/// Number of a cloud's networks, and number of rules of each.
const NETWORKS: (usize, usize) = (10_000, 20);

/// A 5-tuple in host order, in a network.
#[derive(Debug, Clone, Copy)]
struct Header {
    network: u32,
    source: u32,
    destination: u32,
    source_port: u16,
    destination_port: u16,
    protocol: u8,
}

/// Measures ClassBench's three sets with 10,000 rules, if available, and a cloud's rules.
///
/// # Errors
/// If two structures give different results, or memory runs out.
pub fn run(eal: Option<&Eal>, options: &Options, report: &mut Report) -> anyhow::Result<()> {
    for set in SETS {
        match data::classbench(set) {
            Ok(rules) => classbench(eal, set, rules, options, report)?,
            Err(error) => report.note(format!("without {set}: {error}")),
        }
    }
    run_cloud(options, report)
}

/// Measures lookups in a ClassBench rule set with several traces of headers, compared with
/// `rte_acl`. A sample of the results is checked against a linear search.
fn classbench(
    eal: Option<&Eal>,
    set: &str,
    mut rules: Vec<Rule>,
    options: &Options,
    report: &mut Report,
) -> anyhow::Result<()> {
    // Without the TCP flags, which `rte_acl` does not get either, some rules are duplicates.
    let mut seen = HashSet::new();
    rules.retain(|rule| seen.insert(packed_rule(rule)));
    let mut rng = fastrand::Rng::with_seed(options.seed);
    let (mut table, loading) = load_rules(&field_layout(None), 2, rules.iter().map(packed_rule).collect(), &mut rng);
    report.note(format!("ternary, {set}: {} rules, loaded one by one in random order: {loading}", rules.len()));
    run_changes(&mut table, &rules, &mut rng, set, report);
    let acl = eal.map(|eal| Acl::build(eal, &rules)).transpose()?;
    for trace in TRACES {
        let headers: Vec<Header> = (0..HEADERS)
            .map(|_| {
                if trace == TRACES[1] {
                    random_header(&mut rng)
                } else {
                    rule_corner(&rules[rng.usize(..rules.len())], &mut rng)
                }
            })
            .collect();
        let keys: Vec<u64> = headers.iter().flat_map(|h| header_key(h).into_iter().take(2)).collect();
        let found = classify(&table, &keys, 2);
        for (header, found) in headers.iter().zip(&found).step_by(64) {
            let first = rules.iter().position(|rule| rule_matches(rule, header)).map_or(0, |index| index as u32 + 1);
            ensure!(*found == first, "lookup::ternary: {header:?} hits rule {first} of {set}, not {found}");
        }
        let mut comparison = EntrantComparison::new(&chart(trace), "rules", set, Unit::MillionsPerSecond);
        comparison.entrant("terrace", || classify_batches(&table, &keys, 2));
        let acl_keys: Vec<AclKey> = headers.iter().map(acl_key).collect();
        if let Some(acl) = &acl {
            let mut out = vec![0; HEADERS];
            acl.classify(&acl_keys, &mut out)?;
            ensure!(out == found, "rte_acl and lookup::ternary differ on {set}");
            comparison.entrant("rte_acl", move || match acl.classify(&acl_keys, &mut out) {
                Ok(()) => HEADERS as u64,
                Err(_) => 0,
            });
        }
        report.push(comparison.run(options));
    }
    Ok(())
}

/// Measures rules of many networks with few rules each. Only ours, because `rte_acl` cannot hold
/// them.
fn run_cloud(options: &Options, report: &mut Report) -> anyhow::Result<()> {
    let mut rng = fastrand::Rng::with_seed(options.seed);
    let network_count = if options.quick { 500 } else { NETWORKS.0 };
    let network_numbers: Vec<u32> = (0..network_count).map(|_| rng.u32(..1 << 24)).collect();
    let mut rules: Vec<(u32, Rule)> = Vec::new();
    for &number in &network_numbers {
        rules.extend((0..NETWORKS.1).map(|index| (number, cloud_rule(index, &mut rng))));
    }
    let mut seen = HashSet::new();
    rules.retain(|(number, rule)| seen.insert((*number, packed_rule(rule))));
    let packed_rules =
        rules.iter().map(|(number, rule)| [vec![u64::from(*number)], packed_rule(rule)].concat()).collect();
    let (table, loading) = load_rules(&field_layout(Some(24)), 3, packed_rules, &mut rng);
    let bytes = table.memory_bytes() / rules.len();
    report.note(format!("ternary, a cloud: {} rules, {bytes} bytes each, loaded one by one: {loading}", rules.len()));
    let headers: Vec<Header> = (0..HEADERS)
        .map(|_| {
            let (network, rule) = &rules[rng.usize(..rules.len())];
            Header { network: *network, ..rule_corner(rule, &mut rng) }
        })
        .collect();
    let keys: Vec<u64> = headers
        .iter()
        .flat_map(|header| {
            let [addresses, ports, network] = header_key(header);
            [network, addresses, ports]
        })
        .collect();
    let found = classify(&table, &keys, 3);
    for (header, found) in headers.iter().zip(&found).step_by(512) {
        let is_hit = |(network, rule): &(u32, Rule)| *network == header.network && rule_matches(rule, header);
        let first = rules.iter().position(is_hit).map_or(0, |index| index as u32 + 1);
        ensure!(*found == first, "lookup::ternary: {header:?} hits rule {first}, not {found}");
    }
    let x = format!("{} networks of {}", network_count, NETWORKS.1);
    let mut comparison = EntrantComparison::new("ternary, a cloud's rules", "rules", x, Unit::MillionsPerSecond);
    comparison.entrant("terrace", || classify_batches(&table, &keys, 3));
    report.push(comparison.run(options));
    Ok(())
}

/// Returns a security group's rule: one side is a subnet of the network, the other a host, a subnet
/// or any address. The last rule denies everything else.
fn cloud_rule(index: usize, rng: &mut fastrand::Rng) -> Rule {
    let mut random_side = |lens: &[u8]| {
        let len = lens[rng.usize(..lens.len())];
        let address = 0x0a00_0000 | rng.u32(..1 << 16);
        (address & u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0), len)
    };
    let (source, destination) = (random_side(&[0, 0, 8, 16, 24, 32]), random_side(&[16, 24, 24, 28, 32]));
    let port = [22, 53, 80, 443, 3306, 8080][rng.usize(..6)];
    let ports = [(port, port), (port, port), (port, port + 10), (1024, 65_535), (0, 65_535)][rng.usize(..5)];
    match index + 1 == NETWORKS.1 {
        true => Rule {
            source: (0, 0),
            destination: (0, 0),
            source_port: (0, 65_535),
            destination_port: (0, 65_535),
            protocol: (0, 0),
        },
        false => Rule {
            source,
            destination,
            source_port: (0, 65_535),
            destination_port: ports,
            protocol: [(6, 0xff), (17, 0xff), (0, 0)][rng.usize(..3)],
        },
    }
}

/// Loads rules in random order; the first has the highest precedence. Returns the table and a
/// description of the insertion time.
fn load_rules(
    places: &[LookupKeyField],
    words: usize,
    rules: Vec<Vec<u64>>,
    rng: &mut fastrand::Rng,
) -> (TernaryTable, String) {
    let mut table = TernaryTable::new(places, words, 8);
    let mut order: Vec<usize> = (0..rules.len()).collect();
    rng.shuffle(&mut order);
    let mut took = Vec::with_capacity(rules.len());
    for at in order {
        let start = Instant::now();
        let value = (at as u64 + 1).to_le_bytes();
        table.insert(&rules[at], (rules.len() - at) as i32, at as u64, &value);
        took.push(start.elapsed().as_secs_f64() * 1e6);
    }
    (table, format!("insert {}", quantiles(took)))
}

/// Removes rules and adds them again, one at a time, and reports the time of each.
fn run_changes(table: &mut TernaryTable, rules: &[Rule], rng: &mut fastrand::Rng, set: &str, report: &mut Report) {
    let (mut deletes, mut inserts) = (Vec::new(), Vec::new());
    for _ in 0..20_000 {
        let index = rng.usize(..rules.len());
        let (key, priority, value) =
            (packed_rule(&rules[index]), (rules.len() - index) as i32, (index as u64 + 1).to_le_bytes());
        let start = Instant::now();
        table.remove(&key, priority);
        deletes.push(start.elapsed().as_secs_f64() * 1e6);
        let start = Instant::now();
        table.insert(&key, priority, index as u64, &value);
        inserts.push(start.elapsed().as_secs_f64() * 1e6);
    }
    for (name, times) in [("delete", &mut deletes), ("insert", &mut inserts)] {
        times.sort_by(f64::total_cmp);
        for (quantile, fraction) in [("median", 0.5), ("p99", 0.99), ("p99.9", 0.999)] {
            report.fact(CHANGES, &change(set, name, quantile), at(times, fraction), "us");
        }
    }
}

fn quantiles(mut times: Vec<f64>) -> String {
    times.sort_by(f64::total_cmp);
    let [median, p99, p999] = [0.5, 0.99, 0.999].map(|part| at(&times, part));
    format!("{median:.2} us in the median, {p99:.2} us p99, {p999:.1} us p99.9")
}

/// Returns the quantile `part` of sorted times.
fn at(sorted: &[f64], part: f64) -> f64 {
    sorted.get((sorted.len() as f64 * part) as usize).copied().unwrap_or(0.0)
}

/// Classifies all keys in batches, and reads the results. Returns the number of keys.
fn classify_batches(table: &TernaryTable, keys: &[u64], words: usize) -> u64 {
    let mut out = [std::ptr::null(); BATCH];
    for keys in keys.chunks(BATCH * words) {
        table.lookup_batch(keys, &mut out[..keys.len() / words]);
        std::hint::black_box(out.iter().fold(0, |sum, &found| sum ^ rule_number(found)));
    }
    (keys.len() / words) as u64
}

fn classify(table: &TernaryTable, keys: &[u64], words: usize) -> Vec<u32> {
    let mut out = vec![std::ptr::null(); keys.len() / words];
    table.lookup_batch(keys, &mut out);
    out.into_iter().map(rule_number).collect()
}

/// Returns the number of the rule of a lookup result; 0 for a miss.
fn rule_number(found: *const u8) -> u32 {
    // SAFETY: `lookup_batch` returned the pointer, and at least 8 bytes are readable there, because
    // the table has not changed since.
    if found.is_null() { 0 } else { unsafe { found.cast::<u32>().read_unaligned() } }
}

/// Returns the layout of the fields: optionally a network's number, then the 5-tuple in two words.
fn field_layout(network: Option<u32>) -> Vec<LookupKeyField> {
    let mut places = Vec::new();
    let mut place = |kind, width, bit| {
        places.push(LookupKeyField { position: places.len(), kind, width_bits: width, bit_offset: bit, signed: false })
    };
    let start = if let Some(width) = network {
        place(MatchKind::Exact, width, 0);
        64
    } else {
        0
    };
    place(MatchKind::Lpm, 32, start);
    place(MatchKind::Lpm, 32, start + 32);
    place(MatchKind::Range, 16, start + 64);
    place(MatchKind::Range, 16, start + 80);
    place(MatchKind::Ternary, 8, start + 96);
    places
}

/// Returns a rule as an entry's packed key.
fn packed_rule(rule: &Rule) -> Vec<u64> {
    let prefix = |(address, len): (u32, u8)| [u64::from(address), u64::from(len)];
    let ports = |(low, high): (u16, u16)| [u64::from(low), u64::from(high)];
    let (protocol, mask) = rule.protocol;
    let protocol = [u64::from(protocol & mask), u64::from(mask)];
    [prefix(rule.source), prefix(rule.destination), ports(rule.source_port), ports(rule.destination_port), protocol]
        .concat()
}

/// Returns the key of a header: addresses, ports and protocol, network.
fn header_key(header: &Header) -> [u64; 3] {
    let ports = u64::from(header.source_port) | u64::from(header.destination_port) << 16;
    [
        u64::from(header.source) | u64::from(header.destination) << 32,
        ports | u64::from(header.protocol) << 32,
        u64::from(header.network),
    ]
}

fn acl_key(header: &Header) -> AclKey {
    acl::key(header.source, header.destination, header.source_port, header.destination_port, header.protocol)
}

fn prefix_mask(len: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0)
}

fn rule_matches(rule: &Rule, header: &Header) -> bool {
    let inside = |port: u16, (low, high): (u16, u16)| low <= port && port <= high;
    (rule.source.0 ^ header.source) & prefix_mask(rule.source.1) == 0
        && (rule.destination.0 ^ header.destination) & prefix_mask(rule.destination.1) == 0
        && inside(header.source_port, rule.source_port)
        && inside(header.destination_port, rule.destination_port)
        && (rule.protocol.0 ^ header.protocol) & rule.protocol.1 == 0
}

/// Returns a corner of a rule: the smallest or largest value in each field.
fn rule_corner(rule: &Rule, rng: &mut fastrand::Rng) -> Header {
    let mut address = |(value, len): (u32, u8)| if rng.bool() { value } else { value | !prefix_mask(len) };
    let (source, destination) = (address(rule.source), address(rule.destination));
    let mut port = |(low, high): (u16, u16)| if rng.bool() { low } else { high };
    let (source_port, destination_port) = (port(rule.source_port), port(rule.destination_port));
    let protocol = rule.protocol.0 & rule.protocol.1 | (rng.u8(..) & !rule.protocol.1);
    Header { network: 0, source, destination, source_port, destination_port, protocol }
}

fn random_header(rng: &mut fastrand::Rng) -> Header {
    Header {
        network: 0,
        source: rng.u32(..),
        destination: rng.u32(..),
        source_port: rng.u16(..),
        destination_port: rng.u16(..),
        protocol: rng.u8(..),
    }
}
