//! Tests digests: keys with an entry hit it, whatever collides; keys without an entry hit only
//! where their digest equals that of an entry.

use crate::pair::{Packet, Pair, clear, default_action, never, program, sizes};
use asic::transform::TransformedPipeline;
use asic::transform::digest::{DigestOptions, conflict_capacity, digest_keys, key_digest};
use std::sync::Arc;

const TABLES: &[&str] = &["route_v4", "route_v6", "vm_v4", "host_v6", "acl"];

fn pair(seed: u64, options: &DigestOptions) -> Pair {
    let first = program();
    let rewritten = TransformedPipeline::unchanged(first.clone(), sizes(&first))
        .then(|p: &Arc<_>, s| digest_keys(p, s, "ingress.host_v6", options))
        .and_then(|r| r.then(|p, s| digest_keys(p, s, "ingress.vm_v6", options)))
        .expect("both tables can be digested");
    Pair::new(&first, rewritten, seed, TABLES)
}

/// Returns whether the packet's address, or that of an entry, has the digest of another entry, and
/// therefore hits wrongly.
fn collides(options: &DigestOptions, pair: &Pair, packet: &Packet) -> bool {
    let digest = |value: u128| key_digest(options, &[(128, &[value as u64, (value >> 64) as u64])]);
    let table = entries::find_table(pair.first.pipeline(), "host_v6").expect("the program has it");
    let fixed = [0x2001_0db8_0000_0000_0000_0000_0000_0001u128, 0x2001_0db8_0000_0000_0000_0000_0000_0002];
    let entries = pair.present.get(&table).map(Vec::as_slice).unwrap_or_default();
    let of = |entry: &entries::TableEntry| match &entry.keys[1] {
        ir::KeyMatch::Exact(value) => u128::try_from(value).unwrap_or_default(),
        other => panic!("{other:?} is not exact"),
    };
    entries.iter().map(of).chain(fixed).any(|there| there != packet.v6 && digest(there) == digest(packet.v6))
}

#[test]
fn keys_that_collide_are_kept_apart() {
    let seed = 11;
    println!("seed {seed}");
    let options = DigestOptions {
        bits: 8,
        max_false_hit_probability: 20.0,
        conflicts: Some(6),
        ..DigestOptions::new(0x1234_5678_9abc_def0)
    };
    let mut pair = pair(seed, &options);
    let excuse = |pair: &Pair, packet: &Packet| collides(&options, pair, packet);
    for _ in 0..3 {
        pair.run(150, 40, 12, &excuse);
        let batch = default_action(&pair.first.pipeline().clone(), "host_v6", "unknown", &[77]);
        assert!(pair.apply(&batch));
        pair.run(50, 40, 60, &excuse);
        clear(&mut pair);
    }
    println!("{:?} {:?}", pair.seen, pair.map.stats());
    let seen = &pair.seen;
    assert!(seen.packets > 20_000 && seen.sent > 4000 && seen.writes > 2000, "compared too little: {seen:?}");
    assert!(seen.hits["ingress.host_v6"] > 1000 && seen.hits["ingress.vm_v6"] > 5, "hit too little: {seen:?}");
    assert!(seen.refused > 10 && seen.full > 3, "no batch was refused, so nothing was taken back: {seen:?}");
    // Half of about a hundred entries share a VNI with an unknown key; one digest in 256 is equal.
    assert!(seen.excused * 5 < seen.packets, "too many keys hit what is not theirs: {seen:?}");
}

#[test]
fn wide_digests_differ_in_nothing() {
    let seed = 12;
    println!("seed {seed}");
    let mut pair = pair(seed, &DigestOptions::new(99));
    pair.run(200, 50, 20, &never);
    let seen = &pair.seen;
    assert!(seen.hits["ingress.host_v6"] > 500 && seen.packets == 10_000, "compared too little: {seen:?}");
}

/// Compares the birthday bound with random keys.
#[test]
fn conflicts_are_as_many_as_expected() {
    let options = DigestOptions { bits: 16, ..DigestOptions::new(5) };
    let mut rng = fastrand::Rng::with_seed(3);
    for n in [500u64, 2000] {
        let mut worst = 0;
        for _ in 0..20 {
            let mut seen = std::collections::HashSet::new();
            let fresh = |_: &u64| seen.insert(key_digest(&options, &[(128, &[rng.u64(..), rng.u64(..)])]));
            worst = worst.max(n - (0..n).filter(fresh).count() as u64);
        }
        assert!(worst <= conflict_capacity(n, 16), "{worst} of {n} keys collide");
        assert!(worst * 4 > conflict_capacity(n, 16) - 8, "{worst} of {n} keys collide: the table is far too large");
    }
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let first = program();
    let sizes = sizes(&first);
    let said = |table: &str, options: &DigestOptions| {
        digest_keys(&first, &sizes, table, options).err().expect("refused").to_string()
    };
    assert!(said("ingress.route_v6", &DigestOptions::new(1)).contains("is not exact"));
    assert!(said("ingress.vm_v4", &DigestOptions::new(1)).contains("its keys are"));
    assert!(said("ingress.nowhere", &DigestOptions::new(1)).contains("no such table"));
    let narrow = DigestOptions { bits: 16, ..DigestOptions::new(1) };
    assert!(said("ingress.host_v6", &narrow).contains("take more than 16 bits"));
}
