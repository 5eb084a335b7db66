//! Tables with a three-level index compared with the naive model while prefixes change.

use super::super::table::DirectIndex;
use super::super::tests::{Dice, ModeledLpmTable, clear_host_bits};
use super::super::{LpmTable, LpmVariant};
use super::INDEX_MIN_PREFIXES;

fn has_levels(table: &LpmTable) -> bool {
    matches!(&table.variant, LpmVariant::Wide(table) if matches!(table.direct_index, DirectIndex::Dir16x3(_)))
}

/// Few areas with many prefixes each, so that prefixes nest and blocks take each kind. Lengths
/// around 48 are frequent, longer ones rare.
fn prefix(dice: &mut Dice, bits: u32) -> (u128, u32) {
    let len = [0, 12, 16, 17, 29, 32, 33, 36, 40, 44, 47, 48, 48, 48, 48, 48, 48, 48, 49, 64];
    let len = len[(dice.roll(19) + dice.roll(2)) as usize];
    let area =
        [0x2001_0db8_u128, 0x2001_0db9, 0x2a00_1450, 0x2a00_0000, 0xffff_ffff, 0][dice.roll(6) as usize] << (bits - 32);
    // Few enough in the last area to fit in a line.
    let varying = if area == 0 { 0xf000 } else { 0xffff };
    let random = dice.address(bits) & ((1 << (bits - 32)) - 1) & (varying << (bits - 48) | ((1 << (bits - 48)) - 1));
    (clear_host_bits(area | random, len, bits), len)
}

fn near(dice: &mut Dice, bits: u32, count: usize) -> Vec<(u64, u128)> {
    let tail = |dice: &mut Dice| dice.address(bits) & ((1 << (bits - 46)) - 1);
    (0..count).map(|_| (0, prefix(dice, bits).0 ^ tail(dice))).collect()
}

#[test]
fn levels_follow() {
    for (bits, values) in [(128, 100), (100, 3)] {
        let mut dice = Dice(u64::from(bits) + values);
        let mut pair = ModeledLpmTable::new(0, bits, 8);
        for round in 0..6_000_u64 {
            let (address, len) = prefix(&mut dice, bits);
            pair.insert(0, address, len, &(round * 11 % values).to_le_bytes());
            if round.is_multiple_of(3) {
                let (address, len) = prefix(&mut dice, bits);
                pair.remove(0, address, len);
            }
            if round.is_multiple_of(397) {
                pair.check(&near(&mut dice, bits, 300));
            }
        }
        assert!(has_levels(&pair.table));
        let full = pair.clone();
        let borders: Vec<_> = pair.borders().into_iter().step_by(3).collect();
        pair.check(&borders);
        // Short prefixes cover much, at once and in the end.
        for len in [0, 1, 16, 20, 32] {
            pair.insert(0, clear_host_bits(0x2001_0db8 << (bits - 32), len, bits), len, &[77, len as u8]);
            pair.check(&near(&mut dice, bits, 100));
        }
        for len in [32, 16, 0] {
            pair.remove(0, clear_host_bits(0x2001_0db8 << (bits - 32), len, bits), len);
            pair.check(&near(&mut dice, bits, 100));
        }
        for (index, (len, address)) in pair.prefixes().into_iter().enumerate() {
            pair.remove(0, address, len);
            if index % 397 == 0 {
                pair.check(&near(&mut dice, bits, 100));
            }
        }
        assert!(pair.table.is_empty() && !has_levels(&pair.table) && has_levels(&full.table));
        full.check(&borders);
    }
}

/// Scattered prefixes need too many pages, and many values have numbers that don't fit: the index
/// is not built. It is built when enough prefixes fit.
#[test]
fn levels_have_bounds() {
    let mut dice = Dice(9);
    let mut pair = ModeledLpmTable::new(0, 128, 4);
    for _ in 0..6 * INDEX_MIN_PREFIXES {
        pair.insert(0, dice.address(128), 48, &[1]);
    }
    assert!(!has_levels(&pair.table));
    let before = pair.table.memory_bytes();
    assert!(before < 4 << 20, "{before} bytes");
    // Twenty pages, for which 4,096 prefixes are enough.
    let mut pair = ModeledLpmTable::new(0, 128, 4);
    let address = |index: u128| (0x2400 + index % 20) << 112 | index << 80;
    let mut come = false;
    for index in 0..10_000 {
        pair.insert(0, address(index), 48, &[2]);
        assert!(index > 4_000 || !has_levels(&pair.table), "{index}");
        if !come && has_levels(&pair.table) {
            come = true;
            // A single change does not toggle the index.
            pair.remove(0, address(index), 48);
            assert!(has_levels(&pair.table), "{index}");
            pair.insert(0, address(index), 48, &[2]);
        }
    }
    assert!(has_levels(&pair.table));
    pair.check(&pair.borders()[..2_000]);
    let mut many = LpmTable::new(0, 128, 4);
    let insert = |many: &mut LpmTable, index: u64| {
        many.insert(&[], &[0, 0x2001 << 48 | index << 16], 48, &(index as u32).to_le_bytes())
    };
    for index in 0..0xfffe {
        insert(&mut many, index);
    }
    assert!(has_levels(&many));
    insert(&mut many, 0x1_0000);
    insert(&mut many, 0x1_0001);
    assert!(!has_levels(&many));
    assert_eq!(many.lookup(&[5, 0x2001 << 48 | 0x1_0001 << 16]), Some(&[1, 0, 1, 0][..]));
}

/// Memory of removed pages and blocks is reused.
#[test]
fn memory_is_used_again() {
    let mut dice = Dice(10);
    let mut pair = ModeledLpmTable::new(0, 128, 4);
    for index in 0..1_000 {
        pair.insert(0, 0x2400 << 112 | index << 80, 48, &[3]);
    }
    let mut after = Vec::new();
    for area in [0x2a00_u128, 0x2a01, 0x2a02, 0x2a03] {
        // The last prefix of a page frees its block.
        for _ in 0..500 {
            pair.insert(0, area << 112, 48, &[4]);
            pair.remove(0, area << 112, 48);
        }
        let some: Vec<u128> = (0..400).map(|_| area << 112 | dice.address(128) >> 16).collect();
        some.iter().for_each(|address| pair.insert(0, *address, 48, &[4]));
        assert!(has_levels(&pair.table));
        some.iter().for_each(|address| pair.remove(0, *address, 48));
        let LpmVariant::Wide(table) = &pair.table.variant else { unreachable!("an address of 128 bits") };
        let DirectIndex::Dir16x3(levels) = &table.direct_index else { unreachable!("there are many prefixes") };
        after.push(levels.memory_bytes());
    }
    assert!(after.iter().all(|bytes| *bytes == after[0]), "{after:?}");
}
