//! Chains stay dense, and the unhashed rules of a node yield the same results for many keys as for
//! few.

use super::Random;
use super::model::{FieldSpec, ModeledClassifier, key_match};
use crate::LookupKeyField;
use crate::ternary::TernaryTable;
use crate::ternary::blocks::BLOCK_RULES;
use crate::ternary::bucket_head::head_number;
use crate::ternary::classifier::ROOT_NODE;
use ir::MatchKind;

/// Returns the number of rules in each block of the root's unhashed rules, and checks their order.
fn unhashed_block_counts(table: &TernaryTable) -> Vec<usize> {
    let (blocks, mut counts, mut last) = (&table.classifier.blocks, Vec::new(), u64::MAX);
    let mut block = head_number(table.classifier.nodes[ROOT_NODE as usize].unhashed) as u32;
    while block != 0 {
        counts.push(blocks.rule_count(block));
        for &rank in &blocks.block_ranks(block)[..blocks.rule_count(block)] {
            assert!(rank <= last, "chains are in order of precedence");
            last = rank;
        }
        block = blocks.next_block(block);
    }
    counts
}

/// Rules without common bits are inserted and removed anywhere in one long chain, which must stay
/// dense.
#[test]
fn stay_dense() {
    let place = LookupKeyField { position: 0, kind: MatchKind::Ternary, width_bits: 8, bit_offset: 0, signed: false };
    let mut table = TernaryTable::new(&[place], 1, 8);
    let mut random = Random(31);
    let mut priorities: Vec<i32> = (0..2_000).collect();
    for round in 0..3 {
        let mut there = Vec::new();
        while let Some(priority) = (!priorities.is_empty()).then(|| random.below(priorities.len())) {
            let priority = priorities.swap_remove(priority);
            assert!(!table.insert(&[0, 0], priority, 0, &priority.to_le_bytes()));
            there.push(priority);
        }
        let counts = unhashed_block_counts(&table);
        assert_eq!(counts.iter().sum::<usize>(), 2_000);
        assert!(counts.len() <= 2_000 / BLOCK_RULES * 5 / 4, "round {round}: {} blocks", counts.len());
        while there.len() > 500 {
            let priority = there.swap_remove(random.below(there.len()));
            assert!(table.remove(&[0, 0], priority));
            priorities.push(priority);
        }
        let counts = unhashed_block_counts(&table);
        assert_eq!(counts.iter().sum::<usize>(), 500);
        assert!(counts.len() <= 500 / BLOCK_RULES * 3 / 2, "round {round}: {} blocks of those left", counts.len());
        for priority in there {
            assert!(table.remove(&[0, 0], priority));
            priorities.push(priority);
        }
        assert!(table.is_empty() && unhashed_block_counts(&table).is_empty());
    }
}

/// Rules that are all unhashed, because there are few, and several groups of keys: with ties,
/// ranges, wide ranges, and without.
#[test]
fn a_rest_for_many_keys() {
    let (ternary, range) = ((MatchKind::Ternary, 6, false), (MatchKind::Range, 9, true));
    let sets: [&[FieldSpec]; 4] = [
        &[ternary],
        &[ternary, range],
        &[(MatchKind::Range, 40, false), ternary, (MatchKind::Range, 64, false)],
        &[(MatchKind::Range, 90, true), ternary, range],
    ];
    let mut random = Random(32);
    for round in 0..24 {
        let fields = sets[round % sets.len()];
        let priorities = if round < 12 { 2 } else { 1 << 30 };
        let mut pair = ModeledClassifier::new(fields);
        for _ in 0..24 {
            let keys = fields.iter().map(|field| key_match(&mut random, field)).collect();
            pair.insert(keys, random.below(priorities) as i32, random.word());
            pair.check(&mut random, 20);
        }
        assert!(pair.table.classifier.nodes[ROOT_NODE as usize].subtables.is_empty(), "all rules are unhashed");
        // Whole and partial groups.
        for count in [256, 300, 1] {
            pair.check(&mut random, count);
        }
    }
}
