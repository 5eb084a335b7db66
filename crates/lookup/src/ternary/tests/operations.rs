//! All kinds and widths of fields, with random changes.

use super::Random;
use super::model::{FieldSpec, ModeledClassifier, all_ones, key_match};
use ir::{KeyMatch, MatchKind};
use num_bigint::BigUint;
use proptest::prelude::*;

fn field() -> impl Strategy<Value = FieldSpec> {
    let kinds = [MatchKind::Exact, MatchKind::Ternary, MatchKind::Lpm, MatchKind::Range, MatchKind::Optional];
    let width = prop_oneof![1..9_u32, 9..65_u32, Just(64), 65..200_u32];
    (prop::sample::select(kinds.to_vec()), width, any::<bool>())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Inserts, replacements, removals (often of winners) and lookups.
    #[test]
    fn random_operations(fields in prop::collection::vec(field(), 1..6), seed in any::<u64>(), few in any::<bool>()) {
        let mut random = Random(seed);
        let mut pair = ModeledClassifier::new(&fields);
        let mut winners: Vec<usize> = Vec::new();
        for step in 0..400 {
            // Mostly growing at first, mostly shrinking at the end.
            let grow = random.below(400) >= step / 2;
            let priority = if few { random.below(3) as i32 - 1 } else { random.word() as i32 };
            let priority = *random.pick(&[priority, priority, priority, i32::MIN, i32::MAX]);
            match random.below(8) {
                _ if pair.len() == 0 => pair.insert(fields.iter().map(|f| key_match(&mut random, f)).collect(), priority, random.word()),
                0 => {
                    let (keys, old) = pair.entry(random.below(pair.len()));
                    pair.insert(keys, if random.once_in(2) { old } else { priority }, random.word());
                }
                1 if winners.first().is_some_and(|&at| at < pair.len()) => pair.remove_at(winners[0]),
                2 => {
                    let (keys, _) = pair.entry(random.below(pair.len()));
                    pair.remove(&keys, priority);
                }
                _ if grow => pair.insert(fields.iter().map(|f| key_match(&mut random, f)).collect(), priority, random.word()),
                _ => pair.remove_at(random.below(pair.len())),
            }
            if step % 20 == 0 {
                winners = pair.check(&mut random, 35);
            }
        }
        while pair.table.maintain() {}
        // More keys than a vector or a filter chunk.
        pair.check(&mut random, 150);
    }
}

/// Many entries with the same field values: chains, nested nodes, and removal of everything.
#[test]
fn crowds() {
    let kinds = [
        (MatchKind::Exact, 24, false),
        (MatchKind::Ternary, 32, false),
        (MatchKind::Range, 16, true),
        (MatchKind::Optional, 8, false),
    ];
    let mut random = Random(11);
    let mut pair = ModeledClassifier::new(&kinds);
    for step in 0..1500 {
        let mut keys: Vec<KeyMatch> = kinds.iter().map(|f| key_match(&mut random, f)).collect();
        keys[0] = KeyMatch::Exact(BigUint::from(step % 7_u32));
        pair.insert(keys, random.below(50) as i32, random.word());
        if step % 100 == 0 {
            pair.check(&mut random, 40);
        }
    }
    while pair.len() > 0 {
        pair.remove_at(random.below(pair.len()));
        if pair.len().is_multiple_of(100) {
            pair.check(&mut random, 40);
        }
    }
    assert_eq!(pair.check(&mut random, 40), Vec::<usize>::new(), "no entry is left");
}

/// Entries that match everything, so that only precedence distinguishes them.
#[test]
fn wildcards_only() {
    let fields = [(MatchKind::Ternary, 40, false), (MatchKind::Range, 100, true), (MatchKind::Lpm, 32, false)];
    let mut random = Random(12);
    let mut pair = ModeledClassifier::new(&fields);
    let lowest: BigUint = BigUint::from(1_u8) << 99_u32;
    let mut winners = Vec::new();
    for step in 0..300 {
        let (lo, hi) = (lowest.clone(), all_ones(99));
        let keys = vec![
            KeyMatch::Ternary { value: BigUint::ZERO, mask: BigUint::ZERO },
            KeyMatch::Range { lo, hi },
            KeyMatch::Lpm { value: BigUint::ZERO, prefix_len: 0 },
        ];
        pair.insert(keys, random.below(200) as i32, random.word());
        if step % 3 == 2 && !winners.is_empty() {
            pair.remove_at(winners[0]);
        }
        winners = pair.check(&mut random, 3);
        assert_eq!(winners.len(), 3);
    }
}

/// Changes to a table do not affect its clone.
#[test]
fn clones_are_independent() {
    let fields = [(MatchKind::Lpm, 32, false), (MatchKind::Lpm, 128, false), (MatchKind::Range, 16, false)];
    let mut random = Random(13);
    let mut pair = ModeledClassifier::new(&fields);
    for _ in 0..400 {
        pair.insert(fields.iter().map(|f| key_match(&mut random, f)).collect(), random.below(9) as i32, random.word());
    }
    // During reorganisation as well as after it.
    for _ in 0..2 {
        let (copy, mut other) = (pair.clone(), pair.clone());
        for _ in 0..200 {
            other.remove_at(random.below(other.len()));
            pair.insert(
                fields.iter().map(|f| key_match(&mut random, f)).collect(),
                random.below(9) as i32,
                random.word(),
            );
        }
        for pair in [&pair, &copy, &other] {
            pair.check(&mut random, 100);
        }
        while pair.table.maintain() {}
    }
}

/// No fields, and fields without bits.
#[test]
fn empty_keys() {
    let mut random = Random(14);
    for fields in [&[][..], &[(MatchKind::Ternary, 0, false), (MatchKind::Range, 0, false)]] {
        let mut pair = ModeledClassifier::new(fields);
        assert!(pair.table.lookup(&[0]).is_null());
        for priority in [3, 9, 3, -1] {
            let zero = BigUint::ZERO;
            let key = |(kind, _, _): &FieldSpec| match kind {
                MatchKind::Range => KeyMatch::Range { lo: zero.clone(), hi: zero.clone() },
                _ => KeyMatch::Ternary { value: zero.clone(), mask: zero.clone() },
            };
            pair.insert(fields.iter().map(key).collect(), priority, random.word());
        }
        assert_eq!(pair.len(), 3);
        assert!(!pair.check(&mut random, 5).is_empty());
    }
}
