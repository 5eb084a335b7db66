//! Chains: that they stay dense, and that the rest of a node answers many keys as it answers few.

use super::Random;
use super::model::{FieldSpec, Pair, key_match};
use crate::KeyPlace;
use crate::ternary::TernaryTable;
use crate::ternary::blocks::LANES;
use crate::ternary::head::number;
use crate::ternary::tree::ROOT;
use ir::MatchKind;

/// Rules of each block of the root's rest, and that they are in order.
fn rest(table: &TernaryTable) -> Vec<usize> {
    let (blocks, mut counts, mut last) = (&table.tree.blocks, Vec::new(), u64::MAX);
    let mut block = number(table.tree.nodes[ROOT as usize].rest) as u32;
    while block != 0 {
        counts.push(blocks.count(block));
        for &rank in &blocks.ranks(block)[..blocks.count(block)] {
            assert!(rank <= last, "the stronger one comes first");
            last = rank;
        }
        block = blocks.next(block);
    }
    counts
}

/// Rules without bits in common come and go at any place of one long chain, which must not become longer than it has to be.
#[test]
fn stay_dense() {
    let place = KeyPlace { position: 0, kind: MatchKind::Ternary, width: 8, bit: 0, signed: false };
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
        let counts = rest(&table);
        assert_eq!(counts.iter().sum::<usize>(), 2_000);
        assert!(counts.len() <= 2_000 / LANES * 5 / 4, "round {round}: {} blocks", counts.len());
        while there.len() > 500 {
            let priority = there.swap_remove(random.below(there.len()));
            assert!(table.remove(&[0, 0], priority));
            priorities.push(priority);
        }
        let counts = rest(&table);
        assert_eq!(counts.iter().sum::<usize>(), 500);
        assert!(counts.len() <= 500 / LANES * 3 / 2, "round {round}: {} blocks of those left", counts.len());
        for priority in there {
            assert!(table.remove(&[0, 0], priority));
            priorities.push(priority);
        }
        assert!(table.is_empty() && rest(&table).is_empty());
    }
}

/// So few rules that all are in the rest, and several groups of keys: with ties, narrow ranges, wide ranges, and without.
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
        let mut pair = Pair::new(fields);
        for _ in 0..24 {
            let keys = fields.iter().map(|field| key_match(&mut random, field)).collect();
            pair.insert(keys, random.below(priorities) as i32, random.word());
            pair.check(&mut random, 20);
        }
        assert!(pair.table.tree.nodes[ROOT as usize].tables.is_empty(), "all are in the rest");
        // A whole number of groups, and not.
        for count in [256, 300, 1] {
            pair.check(&mut random, count);
        }
    }
}
