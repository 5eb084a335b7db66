//! [`Few`]: a table of a handful of short keys, beside its structure for any number.
//!
//! Many tables of a program hold a few entries of its configuration: its own addresses, its next hops. Comparing a key with all of them is
//! faster than hashing it.
#![allow(unsafe_code)]

use super::ternary::factor;
use std::ptr::null;

/// The most entries.
const MOST: usize = 8;

/// The same entries for whoever looks up one key at a time: each of them has a slot to itself, so that one comparison is enough.
///
/// A key's slot is the highest bits of its product with `factor`. Slots without an entry hold a key of another slot, which nobody who looks for it finds there.
#[repr(C)]
#[derive(Clone, Debug)]
pub struct Slots {
    /// Odd, and such that no two keys have one slot.
    pub factor: u64,
    /// A key, and the address of its value's first byte.
    pub slots: [[u64; 2]; Slots::COUNT],
}

impl Slots {
    /// How many there are: a power of two.
    pub const COUNT: usize = 32;
    /// What to shift a product by.
    pub const SHIFT: u32 = u64::BITS - Slots::COUNT.trailing_zeros();
    /// Factors that are tried. Each serves for eight keys with a probability of 0.4.
    const TRIES: usize = 200;

    /// The slot of a key.
    fn of(&self, key: u64) -> usize {
        (key.wrapping_mul(self.factor) >> Slots::SHIFT) as usize
    }

    /// Slots for these entries, if a factor is found for them.
    fn new(entries: impl Iterator<Item = [u64; 2]> + Clone) -> Option<Slots> {
        let mut slots = Slots { factor: 0, slots: [[0; 2]; Slots::COUNT] };
        (0..Slots::TRIES).any(|number| slots.fill(factor(number), entries.clone())).then_some(slots)
    }

    /// Whether each of the entries has a slot to itself with that factor.
    fn fill(&mut self, factor: u64, entries: impl Iterator<Item = [u64; 2]>) -> bool {
        self.factor = factor;
        // Key 0 has slot 0, and some other key has another one.
        self.slots = [[0; 2]; Slots::COUNT];
        self.slots[0][0] = (1..).find(|key| self.of(*key) != 0).unwrap_or(1);
        let mut taken = 0u32;
        for entry in entries {
            let slot = self.of(entry[0]);
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
pub(super) struct Few {
    keys: [u64; MOST],
    len: usize,
    /// Bytes from value to value; each value is followed by at least 8 more that may be read.
    stride: usize,
    values: Vec<u8>,
    /// Addresses are those of `values`.
    slots: Option<Box<Slots>>,
}

impl Clone for Few {
    fn clone(&self) -> Few {
        let Few { keys, len, stride, ref values, .. } = *self;
        let mut few = Few { keys, len, stride, values: values.clone(), slots: None };
        few.place();
        few
    }
}

impl Few {
    /// Room for values of at most `longest` bytes.
    pub fn new(longest: usize) -> Few {
        let stride = longest + 8;
        let mut few = Few { keys: [0; MOST], len: 0, stride, values: vec![0; MOST * stride], slots: None };
        few.place();
        few
    }

    /// Gives each entry a slot.
    fn place(&mut self) {
        let first = self.values.as_ptr() as u64;
        let entries = self.keys[..self.len].iter().enumerate();
        let slots = Slots::new(entries.map(|(at, key)| [*key, first + (at * self.stride) as u64]));
        self.slots = slots.map(Box::new);
    }

    /// The entries in slots; `None` if no factor was found for them.
    pub fn slots(&self) -> Option<&Slots> {
        self.slots.as_deref()
    }

    /// Adds an entry, or changes its value. False if there is no more room: then this is not the whole table any more.
    pub fn insert(&mut self, key: u64, value: &[u8]) -> bool {
        let at = self.keys[..self.len].iter().position(|own| *own == key).unwrap_or(self.len);
        if at == MOST {
            return false;
        }
        self.keys[at] = key;
        self.len = self.len.max(at + 1);
        self.values[at * self.stride..][..value.len()].copy_from_slice(value);
        self.place();
        true
    }

    /// Takes an entry out.
    pub fn remove(&mut self, key: u64) {
        let Some(at) = self.keys[..self.len].iter().position(|own| *own == key) else { return };
        self.len -= 1;
        self.keys[at] = self.keys[self.len];
        let last = self.len * self.stride;
        self.values.copy_within(last..last + self.stride, at * self.stride);
        self.place();
    }

    /// As [`super::exact::ExactTable::lookup_batch`].
    pub fn lookup_batch(&self, keys: &[u64], out: &mut [*const u8]) {
        assert_eq!(keys.len(), out.len(), "a place for each key");
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the processor has it, and there is a place for each key.
            return unsafe { self.lookup_lanes(keys, out) };
        } else if is_x86_feature_detected!("avx2") {
            // SAFETY: as above.
            return unsafe { self.lookup_quads(keys, out) };
        }
        self.lookup_plain(keys, out);
    }

    /// Eight keys at once, with one entry after the other.
    ///
    /// # Safety
    /// The processor has AVX-512 F, and there is a place for each key.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f")]
    unsafe fn lookup_lanes(&self, keys: &[u64], out: &mut [*const u8]) {
        use std::arch::x86_64::*;
        for start in (0..keys.len()).step_by(8) {
            let there = (0xff_u32 >> 8_usize.saturating_sub(keys.len() - start)) as __mmask8;
            // SAFETY: masked to the keys that are there.
            let eight = unsafe { _mm512_maskz_loadu_epi64(there, keys.as_ptr().add(start).cast()) };
            let mut values = _mm512_setzero_si512();
            let mut value = self.values.as_ptr();
            for own in &self.keys[..self.len.min(MOST)] {
                let same = _mm512_cmpeq_epi64_mask(eight, _mm512_set1_epi64(*own as i64));
                values = _mm512_mask_mov_epi64(values, same, _mm512_set1_epi64(value as i64));
                value = value.wrapping_add(self.stride);
            }
            // SAFETY: masked to the places that are there.
            unsafe { _mm512_mask_storeu_epi64(out.as_mut_ptr().add(start).cast(), there, values) };
        }
    }

    /// Four keys at once, with one entry after the other.
    ///
    /// # Safety
    /// The processor has AVX2, and there is a place for each key.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    unsafe fn lookup_quads(&self, keys: &[u64], out: &mut [*const u8]) {
        use std::arch::x86_64::*;
        let (fours, rest) = keys.as_chunks::<4>();
        for (four, to) in fours.iter().zip(out.as_chunks_mut::<4>().0) {
            // SAFETY: four words are read.
            let four = unsafe { _mm256_loadu_si256(four.as_ptr().cast()) };
            let mut values = _mm256_setzero_si256();
            let mut value = self.values.as_ptr();
            for own in &self.keys[..self.len.min(MOST)] {
                // No two entries have one key.
                let same = _mm256_cmpeq_epi64(four, _mm256_set1_epi64x(*own as i64));
                values = _mm256_or_si256(values, _mm256_and_si256(same, _mm256_set1_epi64x(value as i64)));
                value = value.wrapping_add(self.stride);
            }
            // SAFETY: four words are written.
            unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), values) };
        }
        self.lookup_plain(rest, &mut out[keys.len() - rest.len()..]);
    }

    fn lookup_plain(&self, keys: &[u64], out: &mut [*const u8]) {
        let present = (1u32 << self.len) - 1;
        for (key, out) in keys.iter().zip(out) {
            // No branch depends on the keys, so the comparisons are made at once.
            let same = self.keys.iter().enumerate().fold(0u32, |same, (at, own)| same | u32::from(own == key) << at);
            let at = (same & present).trailing_zeros() as usize;
            *out = if at < MOST { self.values[at * self.stride..].as_ptr() } else { null() };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Few, MOST, Slots};
    use std::collections::BTreeMap;

    #[test]
    fn is_what_a_map_is() {
        let (mut few, mut map) = (Few::new(5), BTreeMap::new());
        let mut state = 7u64;
        for round in 0..5000u64 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let key = (state >> 33) % 12;
            if state >> 60 < 10 {
                let value = [round as u8; 5];
                let fits = few.insert(key, &value);
                assert_eq!(fits, map.len() < MOST || map.contains_key(&key));
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
            few.lookup_plain(&keys, &mut plain);
            assert_eq!(out, plain);
            #[cfg(target_arch = "x86_64")]
            if is_x86_feature_detected!("avx2") {
                let mut quads = vec![std::ptr::dangling(); 11];
                // SAFETY: the processor has it, and there are as many places as keys.
                unsafe { few.lookup_quads(&keys[..11], &mut quads) };
                assert_eq!(out[..11], quads);
            }
            // Both of it and of a copy, which has values of its own.
            for few in [&few, &few.clone()] {
                let slots = few.slots().expect("so few keys have slots");
                for key in &keys {
                    let [there, value] = slots.slots[(key.wrapping_mul(slots.factor) >> Slots::SHIFT) as usize];
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
