//! [`SmallTable`]: table of at most eight short keys, kept in addition to the table's general
//! structure.
//!
//! Many tables hold a few entries of configuration, such as own addresses or next hops. Comparing a
//! key with all of them is faster than hashing it.
#![allow(unsafe_code)]

use super::ternary::hash_factor;
use std::ptr::null;

/// Maximum number of entries.
const MAX_ENTRIES: usize = 8;

/// Perfect hash of the same entries for lookups of single keys: each entry has its own slot, so one
/// comparison suffices.
///
/// The slot of a key is the top bits of its product with `factor`. An empty slot holds a key that
/// belongs to another slot, so no lookup matches it.
#[repr(C)]
#[derive(Clone, Debug)]
pub struct SmallTableHash {
    /// Odd multiplier that gives each key its own slot.
    pub factor: u64,
    /// Key, and address of the first byte of its value.
    pub slots: [[u64; 2]; SmallTableHash::COUNT],
}

impl SmallTableHash {
    /// Number of slots, a power of two.
    pub const COUNT: usize = 32;
    /// Right shift of a product that yields the slot.
    pub const SHIFT: u32 = u64::BITS - SmallTableHash::COUNT.trailing_zeros();
    /// Number of factors to try. Each works for eight keys with a probability of 0.4.
    const TRIES: usize = 200;

    /// Returns the slot of a key.
    fn slot_index(&self, key: u64) -> usize {
        (key.wrapping_mul(self.factor) >> SmallTableHash::SHIFT) as usize
    }

    /// Builds the hash of these entries; `None` if no factor works.
    fn new(entries: impl Iterator<Item = [u64; 2]> + Clone) -> Option<SmallTableHash> {
        let mut slots = SmallTableHash { factor: 0, slots: [[0; 2]; SmallTableHash::COUNT] };
        (0..SmallTableHash::TRIES).any(|number| slots.try_factor(hash_factor(number), entries.clone())).then_some(slots)
    }

    /// Fills the slots using `factor`. Returns whether each entry has its own slot.
    fn try_factor(&mut self, factor: u64, entries: impl Iterator<Item = [u64; 2]>) -> bool {
        self.factor = factor;
        // Empty slots hold key 0, which belongs to slot 0. Slot 0 gets a key of another slot.
        self.slots = [[0; 2]; SmallTableHash::COUNT];
        self.slots[0][0] = (1..).find(|key| self.slot_index(*key) != 0).unwrap_or(1);
        let mut taken = 0u32;
        for entry in entries {
            let slot = self.slot_index(entry[0]);
            if taken >> slot & 1 == 1 {
                return false;
            }
            taken |= 1 << slot;
            self.slots[slot] = entry;
        }
        true
    }
}

/// Entries with keys of one word.
#[derive(Debug)]
pub(super) struct SmallTable {
    keys: [u64; MAX_ENTRIES],
    len: usize,
    /// Distance between values in bytes; at least 8 bytes after each value may be read.
    stride: usize,
    values: Vec<u8>,
    /// Contains addresses in `values`.
    hash: Option<Box<SmallTableHash>>,
}

impl Clone for SmallTable {
    fn clone(&self) -> SmallTable {
        let SmallTable { keys, len, stride, ref values, .. } = *self;
        let mut few = SmallTable { keys, len, stride, values: values.clone(), hash: None };
        few.rebuild_hash();
        few
    }
}

impl SmallTable {
    /// Creates a table for values of at most `longest` bytes.
    pub fn new(longest: usize) -> SmallTable {
        let stride = longest + 8;
        let mut few =
            SmallTable { keys: [0; MAX_ENTRIES], len: 0, stride, values: vec![0; MAX_ENTRIES * stride], hash: None };
        few.rebuild_hash();
        few
    }

    /// Rebuilds the perfect hash.
    fn rebuild_hash(&mut self) {
        let first = self.values.as_ptr() as u64;
        let entries = self.keys[..self.len].iter().enumerate();
        let slots = SmallTableHash::new(entries.map(|(at, key)| [*key, first + (at * self.stride) as u64]));
        self.hash = slots.map(Box::new);
    }

    /// Returns the perfect hash; `None` if no factor works for the entries.
    pub fn hash(&self) -> Option<&SmallTableHash> {
        self.hash.as_deref()
    }

    /// Inserts an entry, or replaces its value. Returns false if the table is full; it must then be
    /// dropped, because it lacks the entry.
    pub fn insert(&mut self, key: u64, value: &[u8]) -> bool {
        let at = self.keys[..self.len].iter().position(|own| *own == key).unwrap_or(self.len);
        if at == MAX_ENTRIES {
            return false;
        }
        self.keys[at] = key;
        self.len = self.len.max(at + 1);
        self.values[at * self.stride..][..value.len()].copy_from_slice(value);
        self.rebuild_hash();
        true
    }

    /// Removes an entry.
    pub fn remove(&mut self, key: u64) {
        let Some(at) = self.keys[..self.len].iter().position(|own| *own == key) else { return };
        self.len -= 1;
        self.keys[at] = self.keys[self.len];
        let last = self.len * self.stride;
        self.values.copy_within(last..last + self.stride, at * self.stride);
        self.rebuild_hash();
    }

    /// Looks up a batch of keys as [`super::exact::ExactTable::lookup_batch`] does.
    pub fn lookup_batch(&self, keys: &[u64], out: &mut [*const u8]) {
        assert_eq!(keys.len(), out.len(), "one result per key");
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the processor supports it, and `out` has an element per key.
            return unsafe { self.lookup_avx512(keys, out) };
        } else if is_x86_feature_detected!("avx2") {
            // SAFETY: as above.
            return unsafe { self.lookup_avx2(keys, out) };
        }
        self.lookup_scalar(keys, out);
    }

    /// Compares eight keys at once with each entry in turn.
    ///
    /// # Safety
    /// The processor supports AVX-512 F, and `out` has an element per key.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f")]
    unsafe fn lookup_avx512(&self, keys: &[u64], out: &mut [*const u8]) {
        use std::arch::x86_64::*;
        for start in (0..keys.len()).step_by(8) {
            let there = (0xff_u32 >> 8_usize.saturating_sub(keys.len() - start)) as __mmask8;
            // SAFETY: masked to the existing keys.
            let eight = unsafe { _mm512_maskz_loadu_epi64(there, keys.as_ptr().add(start).cast()) };
            let mut values = _mm512_setzero_si512();
            let mut value = self.values.as_ptr();
            for own in &self.keys[..self.len.min(MAX_ENTRIES)] {
                let same = _mm512_cmpeq_epi64_mask(eight, _mm512_set1_epi64(*own as i64));
                values = _mm512_mask_mov_epi64(values, same, _mm512_set1_epi64(value as i64));
                value = value.wrapping_add(self.stride);
            }
            // SAFETY: masked to the existing elements.
            unsafe { _mm512_mask_storeu_epi64(out.as_mut_ptr().add(start).cast(), there, values) };
        }
    }

    /// Compares four keys at once with each entry in turn.
    ///
    /// # Safety
    /// The processor supports AVX2, and `out` has an element per key.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    unsafe fn lookup_avx2(&self, keys: &[u64], out: &mut [*const u8]) {
        use std::arch::x86_64::*;
        let (fours, rest) = keys.as_chunks::<4>();
        for (four, to) in fours.iter().zip(out.as_chunks_mut::<4>().0) {
            // SAFETY: reads four words of a four-word chunk.
            let four = unsafe { _mm256_loadu_si256(four.as_ptr().cast()) };
            let mut values = _mm256_setzero_si256();
            let mut value = self.values.as_ptr();
            for own in &self.keys[..self.len.min(MAX_ENTRIES)] {
                // Keys are distinct, so at most one entry sets a lane.
                let same = _mm256_cmpeq_epi64(four, _mm256_set1_epi64x(*own as i64));
                values = _mm256_or_si256(values, _mm256_and_si256(same, _mm256_set1_epi64x(value as i64)));
                value = value.wrapping_add(self.stride);
            }
            // SAFETY: writes four words of a four-word chunk.
            unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), values) };
        }
        self.lookup_scalar(rest, &mut out[keys.len() - rest.len()..]);
    }

    fn lookup_scalar(&self, keys: &[u64], out: &mut [*const u8]) {
        let present = (1u32 << self.len) - 1;
        for (key, out) in keys.iter().zip(out) {
            // No branch depends on the keys, so that the comparisons run in parallel.
            let same = self.keys.iter().enumerate().fold(0u32, |same, (at, own)| same | u32::from(own == key) << at);
            let at = (same & present).trailing_zeros() as usize;
            *out = if at < MAX_ENTRIES { self.values[at * self.stride..].as_ptr() } else { null() };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_ENTRIES, SmallTable, SmallTableHash};
    use std::collections::BTreeMap;

    #[test]
    fn is_what_a_map_is() {
        let (mut few, mut map) = (SmallTable::new(5), BTreeMap::new());
        let mut state = 7u64;
        for round in 0..5000u64 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let key = (state >> 33) % 12;
            if state >> 60 < 10 {
                let value = [round as u8; 5];
                let fits = few.insert(key, &value);
                assert_eq!(fits, map.len() < MAX_ENTRIES || map.contains_key(&key));
                if fits {
                    map.insert(key, value);
                }
            } else {
                few.remove(key);
                map.remove(&key);
            }
            let keys: Vec<u64> = (0..12).collect();
            let mut out = vec![std::ptr::dangling(); 12];
            few.lookup_batch(&keys, &mut out);
            let mut plain = vec![std::ptr::dangling(); 12];
            few.lookup_scalar(&keys, &mut plain);
            assert_eq!(out, plain);
            #[cfg(target_arch = "x86_64")]
            if is_x86_feature_detected!("avx2") {
                let mut quads = vec![std::ptr::dangling(); 11];
                // SAFETY: the processor supports it, and `quads` has an element per key.
                unsafe { few.lookup_avx2(&keys[..11], &mut quads) };
                assert_eq!(out[..11], quads);
            }
            // Checks the hash of the table and that of a clone, which has its own values.
            for few in [&few, &few.clone()] {
                let slots = few.hash().expect("a perfect hash for few keys");
                for key in &keys {
                    let [there, value] =
                        slots.slots[(key.wrapping_mul(slots.factor) >> SmallTableHash::SHIFT) as usize];
                    let found = few.keys[..few.len].iter().position(|own| own == key);
                    let own = found.map(|at| few.values[at * few.stride..].as_ptr() as u64);
                    assert_eq!(Some(value).filter(|_| there == *key), own, "{key} in round {round}");
                }
            }
            for (key, found) in keys.iter().zip(out) {
                let at = (found as usize).checked_sub(few.values.as_ptr() as usize);
                let value = at.filter(|_| !found.is_null()).map(|at| &few.values[at..at + 5]);
                assert_eq!(value, map.get(key).map(<[u8; 5]>::as_slice), "{key} in round {round}");
            }
        }
        assert!(!map.is_empty());
    }
}
