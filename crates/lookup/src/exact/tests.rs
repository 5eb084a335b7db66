//! [`ExactTable`] compared with a standard map.

use super::ExactTable;
use super::hash::{HashSeeds, hash_tag};
use super::probe::SimdLevel;
use proptest::prelude::*;
use std::collections::HashMap;

/// Generator of well-mixed words from a seed (splitmix64).
struct RandomWords(u64);

impl RandomWords {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn value(&mut self, longest: usize) -> Vec<u8> {
        let len = self.below(longest + 1);
        (0..len).map(|_| self.next() as u8).collect()
    }
}

/// Table with its model.
struct ModeledTable {
    table: ExactTable,
    model: HashMap<Vec<u64>, Vec<u8>>,
    key_bits: u32,
}

impl ModeledTable {
    fn new(key_bits: u32, longest: usize) -> ModeledTable {
        ModeledTable { table: ExactTable::new(key_bits, longest), model: HashMap::new(), key_bits }
    }

    /// Returns a key made from a word. Different words give different keys if the key is wide
    /// enough.
    fn key(&self, word: u64) -> Vec<u64> {
        let mut words = RandomWords(word);
        let last = self.key_bits.div_ceil(64) as usize - 1;
        let mut key: Vec<u64> = (0..=last).map(|at| if at == 0 { word } else { words.next() }).collect();
        key[last] &= u64::MAX >> ((64 - self.key_bits % 64) % 64);
        key
    }

    fn insert(&mut self, key: &[u64], value: &[u8]) {
        let replaced = self.model.insert(key.to_vec(), value.to_vec()).is_some();
        assert_eq!(self.table.insert(key, value), replaced);
    }

    fn remove(&mut self, key: &[u64]) {
        assert_eq!(self.table.remove(key), self.model.remove(key).is_some());
    }

    fn look_up(&self, keys: &[Vec<u64>]) {
        let words = keys.concat();
        let mut out = vec![std::ptr::dangling(); keys.len()];
        self.table.lookup_batch(&words, &mut out);
        for vectors in SimdLevel::all_supported() {
            let mut same = vec![std::ptr::dangling(); keys.len()];
            self.table.lookup_with_simd(&words, &mut same, vectors);
            assert_eq!(out, same, "{vectors:?}");
        }
        for (key, out) in keys.iter().zip(out) {
            let expected = self.model.get(key);
            assert_eq!(expected.is_some(), !out.is_null(), "{key:?}");
            let got = self.table.get(key);
            assert_eq!(got.map(<[u8]>::as_ptr), expected.map(|_| out));
            if let (Some(expected), Some(got)) = (expected, got) {
                assert_eq!(&got[..expected.len()], &expected[..], "{key:?}");
            }
        }
    }

    fn check_all(&self) {
        assert_eq!((self.table.len(), self.table.is_empty()), (self.model.len(), self.model.is_empty()));
        self.look_up(&self.model.keys().cloned().collect::<Vec<_>>());
    }
}

/// Applies a long sequence of random changes and lookups.
fn run_random_changes(mut pair: ModeledTable, longest: usize, seed: u64, steps: usize) -> ModeledTable {
    let mut words = RandomWords(seed);
    // Few enough keys for frequent replacement and removal.
    let universe = 1 + words.below(2 * steps);
    for step in 0..steps {
        let word = words.below(universe) as u64;
        let key = pair.key(word);
        // Insertions dominate at first, removals later.
        if words.below(steps) > step / 2 {
            let value = words.value(longest);
            pair.insert(&key, &value);
        } else {
            pair.remove(&key);
        }
        if words.below(64) == 0 {
            let count = words.below(600);
            let keys: Vec<_> = (0..count).map(|_| pair.key(words.below(universe + universe / 8) as u64)).collect();
            pair.look_up(&keys);
        }
    }
    pair.check_all();
    pair
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn behaves_like_a_map(
        key_bits in 1u32..=512,
        longest in prop_oneof![0usize..=40, Just(100), Just(300)],
        seed in any::<u64>(),
        reserve in prop_oneof![Just(0usize), 0usize..3000],
    ) {
        let mut pair = ModeledTable::new(key_bits, longest);
        pair.table.reserve(reserve);
        run_random_changes(pair, longest, seed, 3000);
    }
}

#[test]
fn all_widths() {
    for key_bits in 1..=512 {
        for longest in [5, 13, 31, 70] {
            let mut pair = ModeledTable::new(key_bits, longest);
            let mut words = RandomWords(u64::from(key_bits));
            for word in 0..60 {
                let key = pair.key(word);
                let value = words.value(longest);
                pair.insert(&key, &value);
            }
            // A key that differs from an existing one only in its highest bit.
            let mut other = pair.key(7);
            let last = other.len() - 1;
            other[last] ^= 1 << ((key_bits - 1) % 64);
            pair.look_up(&[other]);
            pair.check_all();
            for word in 0..30 {
                let key = pair.key(word);
                pair.remove(&key);
            }
            pair.look_up(&(0..90).map(|word| pair.key(word)).collect::<Vec<_>>());
        }
    }
}

/// Batches of any length in small and large tables with a third of the keys missing; buckets of one
/// to four lines, keys of one or more words.
#[test]
fn batches_of_any_length() {
    let shapes = [(20, 5), (56, 13), (64, 8), (56, 40), (128, 9), (160, 8), (224, 4), (320, 13), (512, 13), (512, 32)];
    for (key_bits, longest) in shapes.into_iter().chain([(56, 100), (512, 1000)]) {
        for entries in [20, 900, 30_000] {
            let mut pair = ModeledTable::new(key_bits, longest);
            let mut words = RandomWords(9);
            for word in 0..entries {
                let (key, value) = (pair.key(word), words.value(longest));
                pair.insert(&key, &value);
            }
            let large = pair.table.hashing.bucket_count() > pair.table.buckets.layout.small_max_buckets;
            assert_eq!(large, entries == 30_000, "{key_bits} {longest} {entries}");
            for len in (0..40).chain([63, 64, 65, 72, 255, 256, 257, 263, 511, 600]) {
                let keys: Vec<_> = (0..len).map(|_| pair.key(words.below(entries as usize * 3 / 2) as u64)).collect();
                pair.look_up(&keys);
            }
            pair.look_up(&vec![pair.key(3); 300]);
            pair.look_up(&vec![pair.key(entries + 3); 300]);
        }
    }
}

/// Growing an empty table loses no entry, keeps it nine tenths full, and adds few buckets per
/// insertion.
#[test]
fn grows_from_nothing() {
    let mut pair = ModeledTable::new(56, 13);
    let mut check = 1;
    for word in 0..200_000u64 {
        let key = pair.key((word * 0x0001_0000_0001) & ((1 << 56) - 1));
        let before = pair.table.hashing.bucket_count();
        pair.insert(&key, &word.to_le_bytes());
        assert!(pair.table.hashing.bucket_count() - before <= 8);
        if word + 1 == check {
            pair.check_all();
            check = check * 3 / 2 + 1;
        }
        if word > 20_000 {
            let bytes = pair.table.memory_bytes();
            // Two copies of a table must take at most 48 bytes per entry. On the heap, capacity
            // grows by a quarter.
            let limit = if bytes > 1_100_000 { 23.8 } else { 31.0 };
            // Plus scratch memory for searches and a page.
            assert!(bytes as f64 <= limit * (word + 1) as f64 + 16_384.0, "{bytes} for {word}");
        }
    }
    pair.check_all();
    assert_eq!(pair.table.stash.len(), 0);
}

/// Reserved space is allocated at once, or with later entries, and not more than needed.
#[test]
fn reserves() {
    let mut pair = ModeledTable::new(64, 7);
    pair.table.reserve(50_000);
    let (buckets, bytes) = (pair.table.hashing.bucket_count(), pair.table.memory_bytes());
    for word in 0..50_000 {
        let key = pair.key(word);
        pair.insert(&key, &[1; 7]);
    }
    assert_eq!(pair.table.hashing.bucket_count(), buckets);
    assert!(bytes < 50_000 * 19, "{bytes}");
    pair.table.reserve(50_000);
    for word in 50_000..60_000 {
        let key = pair.key(word);
        pair.insert(&key, &[2; 7]);
    }
    assert!(pair.table.hashing.bucket_count() > buckets * 19 / 10);
    pair.check_all();
}

/// A table that cannot grow: cuckoo searches reach their limit and meet cycles.
#[test]
fn full_to_the_brim() {
    for longest in [4, 13, 29] {
        let mut pair = ModeledTable::new(56, longest);
        pair.table.reserve(100);
        let mut word = 0;
        while pair.table.stash.len() < 50 {
            let key = pair.key(word);
            let value = &word.to_le_bytes()[..4];
            pair.table.insert_new(pair.table.hash_key(&key), &key, value);
            pair.table.len += 1;
            pair.model.insert(key, value.to_vec());
            word += 1;
        }
        let slots = pair.table.hashing.bucket_count() * pair.table.buckets.layout.slot_count;
        assert!(word as usize > slots, "{word} in {slots}");
        pair.check_all();
        // Stashed entries return to buckets when there is space.
        for word in word..word + 100 {
            let key = pair.key(word);
            pair.insert(&key, &[9; 4]);
        }
        assert_eq!(pair.table.stash.len(), 0);
        pair.check_all();
    }
}

/// Keys that all have the same tag, so that only comparison distinguishes them.
#[test]
fn equal_tags() {
    let mut pair = ModeledTable::new(128, 9);
    let mut words = RandomWords(5);
    while pair.model.len() < 3000 {
        let key = [words.next(), words.next()];
        if hash_tag(pair.table.hash_key(&key)) == 9 {
            pair.insert(&key, &key[0].to_le_bytes());
        }
    }
    pair.check_all();
    let keys: Vec<Vec<u64>> = pair.model.keys().take(1500).cloned().collect();
    for key in &keys {
        pair.remove(key);
    }
    pair.look_up(&keys);
    pair.check_all();
}

/// Keys that all choose the same buckets: the table is slow then but correct, and its memory is
/// bounded.
#[test]
fn equal_hashes() {
    for longest in [9, 100] {
        let mut pair = ModeledTable::new(64, longest);
        pair.table.seeds = HashSeeds::broken();
        let pair = run_random_changes(pair, longest, 11, 1500);
        assert!(pair.table.stash.len() > 50);
        assert!(pair.table.memory_bytes() < 400_000);
    }
}

#[test]
fn long_values_are_freed() {
    let mut pair = ModeledTable::new(32, 200);
    for round in 0..20 {
        for word in 0..500 {
            let key = pair.key(word);
            let len = if (word + round) % 3 == 0 { 200 } else { (word % 20) as usize };
            pair.insert(&key, &vec![round as u8; len]);
        }
        pair.check_all();
    }
    for word in 0..500 {
        let key = pair.key(word);
        pair.remove(&key);
    }
    // 168 long values of 256 bytes at a time, not 20 times that.
    assert!(pair.table.memory_bytes() < 120_000, "{}", pair.table.memory_bytes());
}

#[test]
fn clones_are_independent() {
    let mut pair = ModeledTable::new(160, 20);
    for word in 0..5000 {
        let key = pair.key(word);
        pair.insert(&key, &[word as u8; 20]);
    }
    let copy = ModeledTable { table: pair.table.clone(), model: pair.model.clone(), key_bits: 160 };
    for word in 2500..7500 {
        let key = pair.key(word);
        pair.insert(&key, &[0; 20]);
        let key = pair.key(word - 2500);
        pair.remove(&key);
    }
    copy.check_all();
    pair.check_all();
}

/// Changes two copies alternately: the other copy catches up, or the same changes are applied to
/// it. Returns how often it could catch up.
fn alternate_copies(mut pair: ModeledTable, longest: usize, seed: u64, turns: usize) -> (ModeledTable, usize) {
    let mut words = RandomWords(seed);
    pair.table.track_changes();
    let (mut other, mut followed) = (pair.table.clone(), 0);
    for turn in 0..turns {
        pair.table.clear_tracked_changes();
        if turn % 50 == 20 {
            pair.table.reserve(300);
        }
        let mut changes = Vec::new();
        for _ in 0..words.below(400) {
            let key = pair.key(words.below(3 * turns.min(turn * 40 + 1)) as u64);
            // It grows most of the time, and shrinks in between.
            let value = (words.below(8) > 2 + turn % 4).then(|| words.value(longest));
            match &value {
                Some(value) => pair.insert(&key, value),
                None => pair.remove(&key),
            }
            changes.push((key, value));
        }
        if other.catch_up_from(&pair.table).is_some() {
            followed += 1;
            assert_eq!(other.buckets.lines[..], pair.table.buckets.lines[..], "turn {turn}");
            assert_eq!((other.hashing, other.reserve_target), (pair.table.hashing, pair.table.reserve_target));
            assert_eq!(other.stash, pair.table.stash);
        } else {
            for (key, value) in changes {
                match value {
                    Some(value) => drop(other.insert(&key, &value)),
                    None => drop(other.remove(&key)),
                }
            }
        }
        std::mem::swap(&mut other, &mut pair.table);
        pair.check_all();
    }
    (pair, followed)
}

#[test]
fn copies_follow_each_other() {
    for (key_bits, longest) in [(56, 11), (16, 4), (160, 20), (320, 13), (512, 30)] {
        let (pair, followed) = alternate_copies(ModeledTable::new(key_bits, longest), longest, 5, 800);
        assert_eq!(followed, 800, "{key_bits}");
        assert!(pair.table.len() > 500 && pair.table.hashing.bucket_count() > 150, "{key_bits}");
    }
    // A few keys that choose the same buckets.
    let mut pair = ModeledTable::new(64, 9);
    pair.table.seeds = HashSeeds::broken();
    let (pair, followed) = alternate_copies(pair, 9, 7, 9);
    assert!(followed == 9 && !pair.table.stash.is_empty(), "{followed}");
}

/// Changes are applied to each copy separately if values overflow or many entries are stashed.
#[test]
fn who_cannot_follow_changes_as_well() {
    let (_, followed) = alternate_copies(ModeledTable::new(56, 100), 100, 6, 100);
    assert_eq!(followed, 0);
    let mut pair = ModeledTable::new(64, 9);
    pair.table.seeds = HashSeeds::broken();
    let (pair, followed) = alternate_copies(pair, 9, 7, 100);
    assert!(!pair.table.stash.is_empty() && (1..50).contains(&followed), "{followed}");
}

#[test]
fn empty_tables() {
    let table = ExactTable::new(24, 9);
    let mut out = [std::ptr::dangling(); 3];
    table.lookup_batch(&[1, 2, 3], &mut out);
    assert_eq!(out, [std::ptr::null(); 3]);
    table.lookup_batch(&[], &mut []);
    assert!(table.get(&[1]).is_none() && table.get(&[1, 2]).is_none());
    assert!(table.memory_bytes() < 1000);
}

#[test]
#[should_panic(expected = "2 results for 3 words")]
fn a_batch_has_a_place_for_each_key() {
    ExactTable::new(64, 9).lookup_batch(&[1, 2, 3], &mut [std::ptr::null(); 2]);
}

#[test]
fn is_shared_between_threads() {
    fn shared<T: Send + Sync + Clone>() {}
    shared::<ExactTable>();
}
