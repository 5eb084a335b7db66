//! [`LpmTable`] compared with a naive model, in every form that prefixes take and through all
//! changes of form.

use super::table::DirectIndex;
use super::{LpmTable, LpmVariant, batch, dir24};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// All prefixes, searched one by one.
#[derive(Clone, Default)]
struct PrefixModel {
    prefixes: BTreeMap<(Vec<u64>, u32, u128), Vec<u8>>,
}

impl PrefixModel {
    fn lookup(&self, exact: &[u64], address: u128, bits: u32) -> Option<&Vec<u8>> {
        (0..=bits).rev().find_map(|len| self.prefixes.get(&(exact.to_vec(), len, clear_host_bits(address, len, bits))))
    }
}

/// Clears the host bits of an address.
pub(super) fn clear_host_bits(address: u128, len: u32, bits: u32) -> u128 {
    address & u128::MAX.checked_shl(bits - len).unwrap_or(0)
}

fn words(address: u128, bits: u32) -> Vec<u64> {
    [address as u64, (address >> 64) as u64][..bits.div_ceil(64) as usize].to_vec()
}

/// Table and its model, changed together.
#[derive(Clone)]
pub(super) struct ModeledLpmTable {
    pub table: LpmTable,
    model: PrefixModel,
    exact_bits: u32,
    bits: u32,
    longest: usize,
}

impl ModeledLpmTable {
    pub(super) fn new(exact_bits: u32, bits: u32, longest: usize) -> ModeledLpmTable {
        ModeledLpmTable {
            table: LpmTable::new(exact_bits, bits, longest),
            model: PrefixModel::default(),
            exact_bits,
            bits,
            longest,
        }
    }

    fn exact(&self, key: u64) -> Vec<u64> {
        (0..u64::from(self.exact_bits.div_ceil(64))).map(|word| key.wrapping_mul(word + 1)).collect()
    }

    pub(super) fn insert(&mut self, key: u64, address: u128, len: u32, value: &[u8]) {
        let (exact, address) = (self.exact(key), clear_host_bits(address, len, self.bits));
        let mut padded = value.to_vec();
        padded.resize(self.longest, 0);
        let before = self.model.prefixes.insert((exact.clone(), len, address), padded);
        assert_eq!(self.table.insert(&exact, &words(address, self.bits), len, value), before.is_some());
    }

    pub(super) fn remove(&mut self, key: u64, address: u128, len: u32) {
        let (exact, address) = (self.exact(key), clear_host_bits(address, len, self.bits));
        let before = self.model.prefixes.remove(&(exact.clone(), len, address));
        assert_eq!(self.table.remove(&exact, &words(address, self.bits), len), before.is_some());
    }

    /// Looks up all of these keys with every kernel that the processor has.
    pub(super) fn check(&self, asked: &[(u64, u128)]) {
        assert_eq!(self.table.len(), self.model.prefixes.len());
        let mut keys = Vec::new();
        for &(key, address) in asked {
            keys.extend(self.exact(key));
            keys.extend(words(address, self.bits));
        }
        let expected = |&(key, address): &(u64, u128)| self.model.lookup(&self.exact(key), address, self.bits);
        let expected: Vec<_> = asked.iter().map(expected).collect();
        self.check_kernels(&keys, asked, &expected);
        self.check_each_key(asked);
        for &(key, address) in asked.iter().take(3) {
            let mut one = self.exact(key);
            one.extend(words(address, self.bits));
            let expected = self.model.lookup(&self.exact(key), address, self.bits);
            assert_eq!(self.table.lookup(&one), expected.map(Vec::as_slice));
        }
    }

    /// Looks up the addresses of each key in a separate batch.
    fn check_each_key(&self, asked: &[(u64, u128)]) {
        let mut of_key = BTreeMap::<u64, Vec<u128>>::new();
        asked.iter().for_each(|&(key, address)| of_key.entry(key).or_default().push(address));
        for (key, addresses) in of_key.into_iter().filter(|(_, addresses)| addresses.len() > 16) {
            let exact = self.exact(key);
            let keys: Vec<u64> =
                addresses.iter().flat_map(|&address| [exact.clone(), words(address, self.bits)].concat()).collect();
            let asked: Vec<(u64, u128)> = addresses.iter().map(|&address| (key, address)).collect();
            let expected: Vec<_> =
                addresses.iter().map(|&address| self.model.lookup(&exact, address, self.bits)).collect();
            self.check_kernels(&keys, &asked, &expected);
        }
    }

    /// Looks up one batch with every kernel that the processor has, and compares the values.
    fn check_kernels(&self, keys: &[u64], asked: &[(u64, u128)], expected: &[Option<&Vec<u8>>]) {
        for kernel in 0..5 {
            let mut out = vec![std::ptr::dangling(); asked.len()];
            match (&self.table.variant, kernel) {
                #[cfg(target_arch = "x86_64")]
                (LpmVariant::Narrow(table), 1) => batch::lookup_up_to_avx2(table, keys, &mut out),
                #[cfg(target_arch = "x86_64")]
                (LpmVariant::Wide(table), 1) => batch::lookup_up_to_avx2(table, keys, &mut out),
                (LpmVariant::Narrow(table), 2) => batch::lookup_scalar(table, keys, &mut out),
                (LpmVariant::Wide(table), 2) => batch::lookup_scalar(table, keys, &mut out),
                (LpmVariant::Wide(table), 3 | 4) => match &table.direct_index {
                    DirectIndex::Dir16x3(levels) => levels.lookup_without(kernel - 2, table, keys, &mut out),
                    _ => continue,
                },
                (_, 3 | 4) => continue,
                _ => self.table.lookup_batch(keys, &mut out),
            }
            for (((key, address), &found), expected) in asked.iter().zip(&out).zip(expected) {
                let found = match &self.table.variant {
                    LpmVariant::Narrow(table) => batch::value_bytes(table, found, self.longest),
                    LpmVariant::Wide(table) => batch::value_bytes(table, found, self.longest),
                    LpmVariant::PerLength(_) => return,
                };
                let count = asked.len();
                assert_eq!(
                    found,
                    expected.map(Vec::as_slice),
                    "kernel {kernel}, key {key}, address {address:#x}, of {count}"
                );
            }
        }
    }

    /// Returns length and address of all prefixes under all keys.
    pub(super) fn prefixes(&self) -> Vec<(u32, u128)> {
        self.model.prefixes.keys().map(|(_, len, address)| (*len, *address)).collect()
    }

    /// Returns the first and the last address of each prefix, and the addresses next to them.
    pub(super) fn borders(&self) -> Vec<(u64, u128)> {
        let all = clear_host_bits(u128::MAX, self.bits, 128) >> (128 - self.bits);
        let mut asked = Vec::new();
        for (exact, len, address) in self.model.prefixes.keys() {
            let last = address | all.checked_shr(*len).unwrap_or(0);
            for address in [*address, last, address.wrapping_sub(1) & all, last.wrapping_add(1) & all] {
                asked.push((exact.first().copied().unwrap_or(0), address));
            }
        }
        asked
    }
}

/// Random generator with a visible seed, for tests too large for shrinking.
pub(super) struct Dice(pub u64);

impl Dice {
    pub(super) fn roll(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) % below
    }

    pub(super) fn address(&mut self, bits: u32) -> u128 {
        let (low, high) = (self.roll(u64::MAX), self.roll(u64::MAX));
        (u128::from(high) << 64 | u128::from(low)) >> (128 - bits)
    }
}

#[derive(Clone, Debug)]
enum TableStep {
    Insert { key: u64, address: u128, len: u32, value: u8 },
    Remove { nth: usize },
    RemoveAny { key: u64, address: u128, len: u32 },
    Look { key: u64, address: u128 },
}

/// Addresses with long common prefixes, so that prefixes nest and compressed children pay off.
fn address(bits: u32) -> impl Strategy<Value = u128> {
    (any::<[u8; 16]>(), 0..=128_u32, 0..3_u8).prop_map(move |(bytes, shared, base)| {
        let base = u128::from_be_bytes([base.wrapping_mul(0x5d); 16]);
        let fresh = u128::from_be_bytes(bytes);
        let mask = u128::MAX.checked_shr(shared).unwrap_or(0);
        (base & !mask | fresh & mask) >> (128 - bits)
    })
}

fn steps(bits: u32) -> impl Strategy<Value = Vec<TableStep>> {
    let place = move || (0..5_u64, address(bits), 0..=bits);
    let step = prop_oneof![
        6 => (place(), any::<u8>()).prop_map(|((key, address, len), value)| TableStep::Insert { key, address, len, value }),
        3 => any::<prop::sample::Index>().prop_map(|nth| TableStep::Remove { nth: nth.index(1 << 20) }),
        1 => place().prop_map(|(key, address, len)| TableStep::RemoveAny { key, address, len }),
        2 => place().prop_map(|(key, address, _)| TableStep::Look { key, address }),
    ];
    prop::collection::vec(step, 1..400)
}

fn run_steps(exact_bits: u32, bits: u32, longest: usize, steps: &[TableStep]) {
    let mut pair = ModeledLpmTable::new(exact_bits, bits, longest);
    let mut asked = Vec::new();
    for step in steps {
        match *step {
            TableStep::Insert { key, address, len, value } => {
                let value = vec![value; (value as usize % 9).min(longest)];
                pair.insert(key, address, len, &value);
                asked.push((key, address));
            }
            TableStep::Remove { nth } => {
                let count = pair.model.prefixes.len().max(1);
                let known = pair.model.prefixes.keys().nth(nth % count).cloned();
                if let Some((exact, len, address)) = known {
                    pair.remove(exact.first().copied().unwrap_or(0), address, len);
                }
            }
            TableStep::RemoveAny { key, address, len } => pair.remove(key, address, len),
            TableStep::Look { key, address } => asked.push((key, address)),
        }
    }
    asked.extend(pair.borders());
    pair.check(&asked);
    // Removes everything again.
    let all: Vec<_> = pair.model.prefixes.keys().cloned().collect();
    for (index, (exact, len, address)) in all.into_iter().enumerate() {
        pair.remove(exact.first().copied().unwrap_or(0), address, len);
        if index % 16 == 0 {
            pair.check(&asked);
        }
    }
    pair.check(&asked);
    assert!(pair.table.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn tenants_of_ipv4(steps in steps(32)) {
        run_steps(24, 32, 5, &steps);
    }

    #[test]
    fn tenants_of_ipv6(steps in steps(128)) {
        run_steps(24, 128, 8, &steps);
    }

    #[test]
    fn one_table_of_ipv4(steps in steps(32)) {
        run_steps(0, 32, 3, &steps);
    }

    #[test]
    fn one_table_of_ipv6_with_long_values(steps in steps(128)) {
        run_steps(0, 128, 40, &steps);
    }

    #[test]
    fn long_values_under_wide_keys(steps in steps(32)) {
        run_steps(200, 32, 17, &steps);
    }

    #[test]
    fn short_values_under_keys_of_a_word(steps in steps(128)) {
        run_steps(48, 128, 8, &steps);
    }

    #[test]
    fn odd_widths(bits in prop::sample::select(vec![1, 2, 7, 12, 33, 63, 64, 65, 100, 127]), steps in steps(128)) {
        let narrow = |address: u128| address >> (128 - bits);
        let steps: Vec<TableStep> = steps.iter().map(|step| match *step {
            TableStep::Insert { key, address, len, value } =>
                TableStep::Insert { key, address: narrow(address), len: len % (bits + 1), value },
            TableStep::RemoveAny { key, address, len } =>
                TableStep::RemoveAny { key, address: narrow(address), len: len % (bits + 1) },
            TableStep::Look { key, address } => TableStep::Look { key, address: narrow(address) },
            ref other => other.clone(),
        }).collect();
        run_steps(16, bits, 1, &steps);
        run_steps(0, bits, 8, &steps);
    }
}

/// Default routes at every level, nested prefixes, and removal that restores shorter ones.
#[test]
fn nested_prefixes_come_back() {
    for (exact_bits, bits) in [(0, 32), (24, 32), (0, 128), (24, 128), (24, 12), (0, 1)] {
        let mut pair = ModeledLpmTable::new(exact_bits, bits, 4);
        let address = clear_host_bits(0x2001_0db8_85a3_0000_8a2e_0370_7334_5678, 128, 128) >> (128 - bits);
        for len in 0..=bits {
            pair.insert(9, address, len, &len.to_le_bytes());
            pair.check(&[(9, address), (9, 0), (8, address)]);
        }
        pair.check(&pair.borders());
        for len in (0..=bits).rev() {
            pair.check(&[(9, address), (9, !address & clear_host_bits(u128::MAX, bits, 128) >> (128 - bits))]);
            pair.remove(9, address, len);
        }
        pair.check(&[(9, address)]);
    }
}

/// One tenant grows from 1 to 100,000 routes and back, among others that stay small.
#[test]
fn one_tenant_grows_and_shrinks() {
    for (bits, exact_bits, count) in [(32, 24, 100_000), (128, 24, 20_000), (32, 0, 20_000)] {
        let mut dice = Dice(11);
        let mut pair = ModeledLpmTable::new(exact_bits, bits, 6);
        for other in 0..20 {
            pair.insert(if exact_bits > 0 { other } else { 0 }, dice.address(bits), bits, &[1, 2, 3]);
        }
        let mut routes = Vec::new();

        for index in 0..count {
            let len = [24, 16, 32, 20, 28, 22, 24, 24, 8][dice.roll(9) as usize] * bits / 32;
            let address = clear_host_bits(dice.address(bits), len, bits);
            routes.push((address, len));
            pair.insert(7, address, len, &(dice.roll(300) as u32).to_le_bytes());
            if index & (index - 1) == 0 || index == count - 1 {
                let some = (0..200).map(|_| routes[dice.roll(routes.len() as u64) as usize].0 + dice.roll(2) as u128);
                let asked: Vec<_> = some.map(|address| (7, address)).chain((0..20).map(|other| (other, 5))).collect();
                pair.check(&asked);
            }
        }
        let full = pair.table.memory_bytes();
        while let Some((address, len)) = routes.pop() {
            pair.remove(7, address, len);
            let left = routes.len();
            if left & left.wrapping_sub(1) == 0 {
                pair.check(&routes.iter().take(100).map(|route| (7, route.0)).collect::<Vec<_>>());
            }
        }
        pair.check(&pair.borders());
        assert!(pair.model.prefixes.len() <= 20);
        // With this number of values, entries of the direct index have two bytes.
        let direct = if exact_bits == 0 { 2 << dir24::BITS } else { 0 };
        assert!(full < 200 * count as usize + (1 << 20) + direct, "{full} bytes");
    }
}

/// Batches of every length, and tenants without a line: unused lanes of a vector never match.
#[test]
fn batches_of_all_lengths() {
    let mut dice = Dice(7);
    for table in 0..60 {
        let mut pair = ModeledLpmTable::new(24, 32, 5);
        for key in 1..200 + table {
            pair.insert(key, dice.address(32), 8 + dice.roll(25) as u32, &key.to_le_bytes()[..5]);
        }
        let mut asked = pair.borders();
        asked.extend((0..300).map(|key| (key, dice.address(32))));
        let mut rest = &asked[..];
        for len in (1..=40).chain([255, 256, 257]) {
            let (batch, others) = rest.split_at(rest.len().min(len));
            pair.check(batch);
            rest = others;
        }
    }
}

/// Many tenants: the directory grows and shrinks, and keys find only their own line.
#[test]
fn many_tenants() {
    for exact_bits in [24, 64, 128] {
        let mut dice = Dice(5);
        let mut pair = ModeledLpmTable::new(exact_bits, 32, 5);
        for key in 0..3_000 {
            for _ in 0..1 + dice.roll(8) {
                pair.insert(key, dice.address(32), 8 + dice.roll(25) as u32, &(dice.roll(1 << 30)).to_le_bytes()[..5]);
            }
        }
        pair.check(&pair.borders());
        for key in 0..3_000 {
            if key % 16 > 0 {
                let exact = pair.exact(key);
                let from = (exact.clone(), 0, 0);
                let gone: Vec<_> = pair.model.prefixes.range(from..).take_while(|(k, _)| k.0 == exact).collect();
                let gone: Vec<_> = gone.into_iter().map(|(key, _)| key.clone()).collect();
                gone.into_iter().for_each(|(_, len, address)| pair.remove(key, address, len));
            }
        }
        let asked: Vec<_> = (0..3_000).map(|key| (key, dice.address(32))).chain(pair.borders()).collect();
        pair.check(&asked);
    }
}

fn has_direct(pair: &ModeledLpmTable) -> bool {
    matches!(&pair.table.variant, LpmVariant::Narrow(table) if matches!(table.direct_index, DirectIndex::Dir24(_)))
}

/// The 24-bit index is built for many prefixes, follows every change, widens with the number of
/// values, and is dropped again.
#[test]
fn entries_for_24_bits_follow() {
    for (bits, values, size) in [(32, 100, 1), (32, 600, 2), (24, 140_000, 4), (40, 300, 1)] {
        // Variable bits of an address.
        let varying = if size == 4 { 20 } else { 14 };
        let mut dice = Dice(bits as u64 + values);
        let mut pair = ModeledLpmTable::new(0, bits, 8);
        let unit = bits - 24;
        // Few areas, so that prefixes nest. Lengths around 24 are frequent, longer ones rare.
        let prefix = |dice: &mut Dice| {
            let len = [8, 12, 15, 16, 17, 20, 22, 23, 24, 24, 24, 24, 24, 25, 32, 40][dice.roll(16) as usize].min(bits);
            let len = if size == 4 { 24 } else { len };
            let area = [0x0a00_0000_u128, 0x0a40_0000, 0xff00_0000, 0][dice.roll(4) as usize] >> 8 << unit;
            (clear_host_bits(area | dice.address(bits) & ((1 << (varying + unit)) - 1), len, bits), len)
        };
        let near = |dice: &mut Dice, count: u64| -> Vec<(u64, u128)> {
            (0..count).map(|_| (0, prefix(dice).0 | dice.address(bits) & 0x3ff)).collect()
        };
        let mut most = 0;
        let mut round = 0_u64;
        while round < 1_500.max(values + values / 8) {
            let (address, len) = prefix(&mut dice);
            pair.insert(0, address, len, &round.wrapping_mul(11).rem_euclid(values).to_le_bytes());
            if round.is_multiple_of(3) {
                let (address, len) = prefix(&mut dice);
                pair.remove(0, address, len);
            }
            if round.is_multiple_of(97) && (round < 2_000 || round.is_multiple_of(1_940)) {
                pair.check(&near(&mut dice, 150));
            }
            most = most.max(pair.model.prefixes.len());
            round += 1;
        }
        assert!(has_direct(&pair) && most > dir24::INDEX_MIN_PREFIXES, "{most}");
        assert!(pair.table.memory_bytes() > size << 24, "entries of {size} bytes");
        for len in [0, 1, 9] {
            pair.insert(0, 0, len, &[77, len as u8]);
            pair.check(&near(&mut dice, 100));
            pair.check(&[(0, 0x5500_0000 >> 8 << unit), (0, 0)]);
        }
        let before = pair.clone();
        let borders = if values < 1_000 { pair.borders() } else { near(&mut dice, 3_000) };
        pair.check(&borders);
        let all: Vec<_> = pair.model.prefixes.keys().cloned().collect();
        for (index, (_, len, address)) in all.into_iter().enumerate() {
            pair.remove(0, address, len);
            if index % 211 == 0 && index < 2_000 {
                pair.check(&near(&mut dice, 100));
            }
        }
        assert!(pair.table.is_empty() && !has_direct(&pair) && has_direct(&before));
        before.check(&borders);
    }
}

/// With most prefixes longer than 24 bits the index would mostly fall back to the trie, so it is
/// not built.
#[test]
fn no_entries_for_long_prefixes() {
    let mut dice = Dice(8);
    let mut pair = ModeledLpmTable::new(0, 32, 4);
    for _ in 0..2_000 {
        pair.insert(0, dice.address(32), 32, &[1]);
    }
    assert!(!has_direct(&pair));
    for _ in 0..9_000 {
        pair.insert(0, dice.address(32), 24, &[2]);
    }
    assert!(has_direct(&pair));
    for _ in 0..9_000 {
        pair.insert(0, dice.address(32), 30, &[3]);
    }
    assert!(!has_direct(&pair));
    pair.check(&pair.borders()[..4_000]);
}

#[test]
fn a_clone_is_independent() {
    let mut dice = Dice(3);
    let mut one = ModeledLpmTable::new(24, 32, 5);
    for _ in 0..3000 {
        one.insert(dice.roll(100), dice.address(32), 8 + dice.roll(25) as u32, &[1, 2]);
    }
    let before = one.clone();
    let mut other = one.clone();
    for ((exact, len, address), _) in before.model.prefixes.clone() {
        if dice.roll(2) == 0 {
            one.remove(exact[0], address, len);
        } else {
            other.insert(exact[0], address, len, &[7]);
        }
    }
    let borders = before.borders();
    [&one, &other, &before].into_iter().for_each(|pair| pair.check(&borders));
}

#[test]
fn addresses_beyond_128_bits() {
    let mut table = LpmTable::new(8, 200, 2);
    assert!(!table.insert(&[1], &[0, 0, 0, 0x80], 1, &[1, 1]));
    assert!(!table.insert(&[1], &[0, 0, 7, 0x80], 72, &[2, 2]));
    assert!(table.insert(&[1], &[0, 0, 7, 0x80], 72, &[3, 3]));
    assert!(!table.insert(&[1], &[9, 9, 9, 9], 0, &[4]));
    assert_eq!(table.lookup(&[1, 5, 5, 7, 0x80]), Some(&[3, 3][..]));
    assert_eq!(table.lookup(&[1, 5, 5, 6, 0x80]), Some(&[1, 1][..]));
    assert_eq!(table.lookup(&[1, 5, 5, 6, 0x10]), Some(&[4, 0][..]));
    assert_eq!(table.lookup(&[2, 5, 5, 6, 0x10]), None);
    assert!(table.remove(&[1], &[0, 0, 7, 0x80], 72) && !table.remove(&[1], &[0, 0, 7, 0x80], 72));
    let mut out = [std::ptr::null(); 2];
    table.lookup_batch(&[1, 5, 5, 7, 0x80, 2, 5, 5, 7, 0x80], &mut out);
    assert!(!out[0].is_null() && out[1].is_null());
    assert_eq!(table.lookup(&[1, 5, 5, 7, 0x80]), Some(&[1, 1][..]));
    assert_eq!(table.len(), 2);
}
