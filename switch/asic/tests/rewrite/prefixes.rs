//! Tests ALPM: pivot and partition find the same longest prefix as one table, while entries come
//! and go.

use crate::pair::{Pair, clear, never, program, sizes};
use asic::transform::TransformedPipeline;
use asic::transform::alpm::{AlpmOptions, partition_table};
use asic::transform::partitions::{PartitionWrite, Partitions};
use asic::transform::prefix::KeyPrefix;
use asic::transform::split_prefix::{split_prefix_key, tables_with_concatenated_prefix};
use fastrand::Rng;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

const TABLES: &[&str] = &["route_v4", "route_v6", "vm_v4", "host_v6", "acl"];

#[test]
fn prefixes_in_partitions_are_the_same_table() {
    for (seed, target) in [(21, 4), (22, 7)] {
        println!("seed {seed}");
        let first = program();
        let options = AlpmOptions::Fitted { depth: 8, target, fill: 0.4 };
        let rewritten = TransformedPipeline::unchanged(first.clone(), sizes(&first))
            .then(|p: &Arc<_>, s| partition_table(p, s, "ingress.route_v4", &options))
            .and_then(|r| r.then(|p, s| partition_table(p, s, "ingress.route_v6", &options)))
            .expect("both tables can be parted");
        let mut pair = Pair::new(&first, rewritten, seed, TABLES);
        for _ in 0..3 {
            pair.run(120, 40, 30, &never);
            pair.run(30, 40, 2, &never);
            println!("{:?}", pair.map.stats());
            clear(&mut pair);
        }
        println!("{:?}", pair.seen);
        let seen = &pair.seen;
        assert!(seen.packets == 18_000 && seen.writes > 3000 && seen.refused > 5, "compared too little: {seen:?}");
        assert!(
            seen.hits["ingress.route_v4"] > 3000 && seen.hits["ingress.route_v6"] > 3000,
            "hit too little: {seen:?}"
        );
    }
}

/// Pivots as a chip stores them: masked keys, longer prefixes before shorter ones.
#[test]
fn pivots_under_masks_are_the_same_table() {
    let seed = 24;
    println!("seed {seed}");
    let first = program();
    let options = AlpmOptions::Fitted { depth: 8, target: 4, fill: 0.4 };
    let mut rewritten = TransformedPipeline::unchanged(first.clone(), sizes(&first))
        .then(|p: &Arc<_>, s| partition_table(p, s, "ingress.route_v4", &options))
        .and_then(|r| r.then(|p, s| partition_table(p, s, "ingress.route_v6", &options)))
        .expect("both tables can be parted");
    let pivots = tables_with_concatenated_prefix(&rewritten.pipeline);
    assert_eq!(pivots, ["ingress.route_v4_pivots", "ingress.route_v6_pivots"]);
    for name in &pivots {
        rewritten = rewritten.then(|p, s| split_prefix_key(p, s, name)).expect("pivots can be taken apart");
        let table = entries::find_table(&rewritten.pipeline, name).expect("it is there");
        let keys = &rewritten.pipeline.tables[table].keys;
        assert!(keys.len() == 2 && keys.iter().all(|key| key.kind == ir::MatchKind::Ternary), "{keys:?}");
    }
    assert!(tables_with_concatenated_prefix(&rewritten.pipeline).is_empty(), "nothing is left");
    let mut pair = Pair::new(&first, rewritten, seed, TABLES);
    for _ in 0..3 {
        pair.run(120, 40, 30, &never);
        pair.run(30, 40, 2, &never);
        clear(&mut pair);
    }
    println!("{:?}", pair.seen);
    let seen = &pair.seen;
    assert!(seen.packets == 18_000 && seen.writes > 3000, "compared too little: {seen:?}");
    assert!(["ingress.route_v4", "ingress.route_v6"].iter().all(|t| seen.hits[*t] > 3000), "hit too little: {seen:?}");
    let refused =
        split_prefix_key(&first, &sizes(&first), "ingress.route_v4").map(|_| ()).expect_err("it has two keys");
    assert!(refused.reason.contains("put together"), "{refused}");
}

/// A table that is too small rejects a batch, without any effect of that batch.
#[test]
fn a_full_table_refuses_whole_batches() {
    let first = program();
    let mut few = sizes(&first);
    few.insert("ingress.route_v4".to_owned(), 60);
    let options = AlpmOptions::Fitted { depth: 8, target: 6, fill: 0.9 };
    let rewritten = TransformedPipeline::unchanged(first.clone(), few)
        .then(|p: &Arc<_>, s| partition_table(p, s, "ingress.route_v4", &options))
        .expect("it can be parted");
    let mut pair = Pair::new(&first, rewritten, 23, &["route_v4"]);
    for _ in 0..4 {
        pair.run(100, 20, 25, &never);
        clear(&mut pair);
    }
    let seen = &pair.seen;
    assert!(seen.full > 20 && seen.hits["ingress.route_v4"] > 1000, "compared too little: {seen:?}");
}

/// Model of a chip's contents: entries, partitions from the reported writes, and pivots.
struct Chip {
    depth: usize,
    partitions: HashMap<u32, BTreeMap<KeyPrefix, ()>>,
    pivots: BTreeMap<KeyPrefix, u32>,
}

impl Chip {
    fn write(&mut self, writes: &[PartitionWrite]) {
        for write in writes {
            match *write {
                PartitionWrite::Insert(at, prefix) => {
                    let there = self.partitions.entry(at).or_default().insert(prefix, ());
                    assert_eq!(there, None, "{prefix:?} is in partition {at} already");
                }
                PartitionWrite::Remove(at, prefix) => {
                    let there = self.partitions.get_mut(&at).and_then(|held| held.remove(&prefix));
                    assert!(there.is_some(), "{prefix:?} is not in partition {at}");
                }
                PartitionWrite::AddPivot(at, prefix) => assert_eq!(self.pivots.insert(prefix, at), None),
                PartitionWrite::MovePivot(at, prefix) => assert!(self.pivots.insert(prefix, at).is_some()),
                PartitionWrite::RemovePivot(prefix) => assert!(self.pivots.remove(&prefix).is_some()),
            }
        }
        for write in writes {
            if let PartitionWrite::Insert(at, _) = write {
                let held = self.partitions[at].len();
                assert!(held <= self.depth, "partition {at} holds {held} entries");
            }
        }
    }

    fn lookup(&self, key: &KeyPrefix) -> Option<KeyPrefix> {
        let longest = (1..=key.len()).rev().find_map(|len| self.pivots.get(&key.truncate(len)));
        let held = self.partitions.get(longest.unwrap_or(&0))?;
        (0..=key.len()).rev().map(|len| key.truncate(len)).find(|prefix| held.contains_key(prefix))
    }
}

/// Returns prefixes distributed as announced ones: three in five are /24, most others /16 to /23,
/// and many are nested.
fn announced(rng: &mut Rng, count: usize) -> Vec<KeyPrefix> {
    let mut seen = std::collections::HashSet::new();
    let mut out: Vec<KeyPrefix> = Vec::new();
    while out.len() < count {
        let len = match rng.u8(..20) {
            0 => rng.u32(8..16),
            1..3 => rng.u32(16..20),
            3..8 => rng.u32(20..24),
            _ => 24,
        };
        let value = match out.is_empty() || rng.u8(..3) == 0 {
            true => rng.u32(1 << 24..0xe000_0000),
            false => {
                let near = out[rng.usize(..out.len())].to_words(32)[0] as u32;
                near ^ (rng.u32(..) & 0x0007_ff00)
            }
        };
        let prefix = KeyPrefix::ALL.append(value.into(), 32, len);
        if seen.insert(prefix) {
            out.push(prefix);
        }
    }
    out
}

/// Returns the longest matching entry by a scan.
fn scan(entries: &BTreeMap<KeyPrefix, u32>, key: &KeyPrefix) -> Option<KeyPrefix> {
    let covering = entries.keys().filter(|prefix| prefix.covers(key));
    covering.max_by_key(|prefix| prefix.len()).copied()
}

/// Inserts prefixes, makes random updates, and compares lookups with a scan over all entries.
fn grow_and_change(routes: Vec<KeyPrefix>, width: u32, options: &AlpmOptions, rng: &mut Rng) {
    let (count, lookups) = (routes.len(), 500);
    let started = Instant::now();
    let mut model: BTreeMap<KeyPrefix, u32> = routes.iter().map(|prefix| (*prefix, rng.u32(..))).collect();
    let shape = options.partition_limits(count as u64 + count as u64 / 50);
    let mut partitions = Partitions::new(shape);
    let mut chip = Chip { depth: shape.depth as usize, partitions: HashMap::new(), pivots: BTreeMap::new() };
    let mut writes = Vec::new();
    partitions
        .build_partitions(model.iter().map(|(prefix, value)| (*prefix, *value)), &mut writes)
        .expect("there is room");
    let placed = started.elapsed();
    chip.write(&writes);
    let report = |partitions: &Partitions<u32>| {
        let held = partitions.stored_entries() as f64;
        format!(
            "{} entries, {} pivots, {} partitions, fill {:.1}%, copies {:.1}%, deepest {}",
            partitions.len(),
            partitions.pivot_count(),
            partitions.used_partitions(),
            100.0 * held / (partitions.used_partitions() as f64 * f64::from(shape.depth)),
            100.0 * (held / partitions.len() as f64 - 1.0),
            partitions.max_partition_entries()
        )
    };
    println!("placed in {placed:?}: {}", report(&partitions));

    let (mut total, mut most, mut present) = (0, 0, routes);
    let started = Instant::now();
    let mut spent = std::time::Duration::ZERO;
    for round in 0..10_000 {
        writes.clear();
        partitions.begin_batch();
        let (at, insert) = (rng.usize(..present.len()), rng.bool());
        let near = present[at];
        let len = near.len().saturating_sub(rng.u32(0..12)).max(1);
        let prefix =
            if insert { near.truncate(len).append(rng.u128(..) & 7, 3, rng.u32(0..=3)).truncate(width) } else { near };
        let known = model.contains_key(&prefix);
        let begun = Instant::now();
        match (insert, known) {
            (true, true) => partitions.replace(prefix, round),
            (true, false) => partitions.insert(prefix, round, &mut writes).expect("there is room"),
            (false, _) => partitions.delete(prefix, &mut writes).expect("there is room"),
        }
        spent += begun.elapsed();
        if round % 5 == 4 {
            // Every fifth update is undone, so none of its writes reaches the chip.
            partitions.undo_batch();
        } else {
            total += writes.len();
            most = most.max(writes.len());
            chip.write(&writes);
            if insert {
                model.insert(prefix, round);
            } else {
                model.remove(&prefix);
                present.swap_remove(at);
            }
            if insert && !known {
                present.push(prefix);
            }
        }
        if (round as usize).is_multiple_of(10_000 / lookups) {
            let key = present[rng.usize(..present.len())].append(rng.u128(..), 128, 128).truncate(width);
            let expected = scan(&model, &key);
            assert_eq!(chip.lookup(&key), expected, "round {round}, key {key:?}");
            assert_eq!(partitions.lookup(&key).map(|(prefix, _)| prefix), expected, "round {round}, key {key:?}");
        }
    }
    assert_eq!(partitions.len(), model.len());
    assert!(partitions.max_partition_entries() <= shape.depth as usize);
    println!(
        "10000 updates in {:?} (the map {spent:?}): {} writes, {:.1} each, at most {most}; {}",
        started.elapsed(),
        total,
        total as f64 / 8000.0,
        report(&partitions)
    );
    for _ in 0..lookups {
        let key = KeyPrefix::ALL.append(rng.u128(..), 128, 128).truncate(width);
        assert_eq!(chip.lookup(&key), scan(&model, &key), "key {key:?}");
    }
}

#[test]
fn announced_prefixes_and_ten_thousand_updates() {
    let seed = 31;
    println!("seed {seed}");
    let mut rng = Rng::with_seed(seed);
    let routes = announced(&mut rng, 30_000);
    grow_and_change(routes.clone(), 32, &AlpmOptions::new(40), &mut rng);
    grow_and_change(routes, 32, &AlpmOptions::Fitted { depth: 24, target: 23, fill: 0.65 }, &mut rng);
}

/// Runs with a file of prefixes, one a line: `TERRACE_ROUTES=file cargo test -p asic --test rewrite
/// -- --nocapture from_a_file`. Does nothing without a file.
#[test]
fn prefixes_from_a_file() {
    let Ok(path) = std::env::var("TERRACE_ROUTES") else { return };
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    // Both families in one table, as in pooled ones: a bit for the family and 128 for the address.
    let one = |line: &str| {
        let (address, len) = line.trim().split_once('/')?;
        let len: u32 = len.parse().ok()?;
        Some(match address.parse().ok()? {
            IpAddr::V4(address) => KeyPrefix::ALL.append(0, 1, 1).append(u32::from(address).into(), 32, len),
            IpAddr::V6(address) => KeyPrefix::ALL.append(1, 1, 1).append(u128::from(address), 128, len),
        })
    };
    let mut routes: Vec<KeyPrefix> = text.lines().filter_map(one).collect();
    routes.sort_unstable();
    routes.dedup();
    assert!(routes.len() > 1000, "{path}: only {} prefixes", routes.len());
    for options in
        [AlpmOptions::new(29), AlpmOptions::new(64), AlpmOptions::Fitted { depth: 29, target: 28, fill: 0.65 }]
    {
        println!("{options:?}");
        grow_and_change(routes.clone(), 129, &options, &mut Rng::with_seed(5));
    }
}
