//! Lookups of many keys: memory is asked for long before it is needed, and no branch depends on what is found.
//!
//! For each key: hash, and ask for its first bucket ([`AHEAD`] keys ahead of the comparison). Compare tags of all slots at once, then
//! one key. Whoever isn't in its first bucket (about one in three of a large table) goes to a list, and its second bucket is asked for. At
//! the end the list is gone through. This is the way for all processors; [`super::lanes`] and [`super::quads`] go it in vectors, where there are
//! some.
#![allow(unsafe_code)]

use super::ExactTable;
use super::geometry::{Geometry, in_all_bytes, zero_bytes};
use super::hash::tag;
use entries::prefetch;
use std::hint::select_unpredictable;
use std::ptr::null;

/// Keys between asking for a bucket and looking into it: measured best; more than the lines that a core can have under way.
const AHEAD: usize = 48;
/// Keys after which the second buckets of those that need them are asked for.
const BLOCK: usize = 16;
/// Keys that are gone through together.
pub(super) const CHUNK: usize = 512;

impl ExactTable {
    /// Looks up many keys, one after the other in `keys`, each of as many words as the table's keys have. `out` receives for each
    /// the first byte of its value, null if there is none. At least 8 bytes may be read there, 16 if values
    /// may be longer, until the table is changed.
    ///
    /// # Panics
    /// If `keys` isn't as long as `out` says.
    pub fn lookup_batch(&self, keys: &[u64], out: &mut [*const u8]) {
        let words = self.buckets.geometry.words;
        assert_eq!(
            keys.len(),
            out.len() * words,
            "{} places for the values of {} words of keys",
            out.len(),
            keys.len()
        );
        self.look_up(keys, out, Vectors::of_processor());
    }

    /// Whether this processor looks up eight keys at once.
    pub fn takes_eight() -> bool {
        matches!(Vectors::of_processor(), Vectors::Eight(_))
    }

    /// As `lookup_batch`, with such vectors, which the processor must have.
    pub(super) fn look_up(&self, keys: &[u64], out: &mut [*const u8], vectors: Vectors) {
        if self.split.buckets() == 0 {
            return out.fill(null());
        }
        let words = self.buckets.geometry.words;
        for start in (0..out.len()).step_by(CHUNK) {
            let end = out.len().min(start + CHUNK);
            let (keys, out) = (&keys[start * words..end * words], &mut out[start..end]);
            assert_eq!(keys.len(), out.len() * words);
            match vectors {
                #[cfg(target_arch = "x86_64")]
                // SAFETY: the processor has them, as was checked when they were chosen; there are buckets, and all words of the keys.
                Vectors::Eight(_) => {
                    unsafe { super::lanes::lookup(self, keys, out) };
                    continue;
                }
                #[cfg(target_arch = "x86_64")]
                // SAFETY: as above, and the table suits.
                Vectors::Four(_) if super::quads::suits(self) => {
                    unsafe { super::quads::lookup(self, keys, out) };
                    continue;
                }
                _ => {}
            }
            match words {
                1 => lookup::<1>(self, keys, out),
                2 => lookup::<2>(self, keys, out),
                3 => lookup::<3>(self, keys, out),
                _ => lookup::<0>(self, keys, out),
            }
        }
        if self.buckets.geometry.spills {
            self.resolve(out);
        }
        if !self.stash.is_empty() {
            self.look_into_stash(keys, out);
        }
    }

    /// Asks for both buckets of a key, which will soon be inserted, removed or looked up.
    pub fn prefetch(&self, key: &[u64]) {
        if self.split.buckets() > 0 && key.len() == self.buckets.geometry.words {
            let hash = self.hash(key);
            self.prefetch_bucket(self.split.first(hash));
            self.prefetch_bucket(self.split.second(hash));
        }
    }

    #[inline(always)]
    pub(super) fn prefetch_bucket(&self, bucket: usize) {
        let start = self.buckets.start().wrapping_add(bucket * self.buckets.geometry.bytes());
        prefetch(start, self.buckets.geometry.lines);
    }

    /// Follows values that are spilled to where they are.
    fn resolve(&self, out: &mut [*const u8]) {
        let inline = self.buckets.geometry.inline;
        let (cells, cell_bytes) = self.spill.cells();
        for value in out.iter_mut().filter(|value| !value.is_null()) {
            // SAFETY: it is the value of a slot, behind whose `inline` bytes there is the mark; if it is set, the first four bytes
            // are the number of a cell.
            unsafe {
                if *value.add(inline) != 0 {
                    let cell = u32::from_le_bytes(value.cast::<[u8; 4]>().read());
                    *value = cells.add(cell as usize * cell_bytes);
                    prefetch(*value, 1);
                }
            }
        }
    }

    #[cold]
    fn look_into_stash(&self, keys: &[u64], out: &mut [*const u8]) {
        for (key, out) in keys.chunks(self.buckets.geometry.words).zip(out) {
            if out.is_null() {
                *out = self.stash.get(key).map_or(null(), |value| value.as_ptr());
            }
        }
    }
}

/// That the processor has what a way of looking up needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Checked(());

/// In which vectors keys are looked up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Vectors {
    /// One key after the other.
    None,
    /// Four keys at once, where the table's buckets allow it.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    Four(Checked),
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    Eight(Checked),
}

impl Vectors {
    /// The widest that the processor has.
    #[inline(always)]
    pub(super) fn of_processor() -> Vectors {
        #[cfg(target_arch = "x86_64")]
        if super::lanes::available() {
            return Vectors::Eight(Checked(()));
        } else if super::quads::available() {
            return Vectors::Four(Checked(()));
        }
        Vectors::None
    }

    /// All that the processor has.
    #[cfg(test)]
    pub(super) fn all() -> Vec<Vectors> {
        let mut all = vec![Vectors::None];
        #[cfg(target_arch = "x86_64")]
        {
            all.extend(super::quads::available().then_some(Vectors::Four(Checked(()))));
            all.extend(super::lanes::available().then_some(Vectors::Eight(Checked(()))));
        }
        all
    }
}

#[cfg(target_arch = "x86_64")]
fn lookup<const W: usize>(table: &ExactTable, keys: &[u64], out: &mut [*const u8]) {
    /// The same code, with multiplication and bit counting of newer machines.
    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt")]
    fn lookup_v3<const W: usize>(table: &ExactTable, keys: &[u64], out: &mut [*const u8]) {
        lookup_chunk::<W>(table, keys, out);
    }
    let v3 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("bmi2");
    if v3 && is_x86_feature_detected!("bmi1") && is_x86_feature_detected!("lzcnt") {
        // SAFETY: the machine has what the function is compiled for.
        unsafe { lookup_v3::<W>(table, keys, out) }
    } else {
        lookup_chunk::<W>(table, keys, out);
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn lookup<const W: usize>(table: &ExactTable, keys: &[u64], out: &mut [*const u8]) {
    lookup_chunk::<W>(table, keys, out);
}

/// Looks up at most [`CHUNK`] keys. `W`: words of a key; 0: as the table says. The table has buckets.
#[inline(always)]
fn lookup_chunk<const W: usize>(table: &ExactTable, keys: &[u64], out: &mut [*const u8]) {
    let probe = Probe::<W>::new(table);
    let mut hashes = [0u64; CHUNK];
    let mut waiting = [0u16; CHUNK];
    let mut waits = 0;
    let count = out.len();
    let ahead = AHEAD.min(count);
    // Until it is its turn, a key's place in `out` has the bucket that it is looked for in.
    for at in 0..ahead {
        (hashes[at], out[at]) = probe.begin(keys, at);
    }
    for block in (0..count).step_by(BLOCK) {
        let before = waits;
        for at in block..count.min(block + BLOCK) {
            if at + ahead < count {
                (hashes[at + ahead], out[at + ahead]) = probe.begin(keys, at + ahead);
            }
            let value = probe.find(out[at], hashes[at], keys, at);
            out[at] = value;
            // No branch: which keys are in their second bucket cannot be predicted.
            waiting[waits] = at as u16;
            waits += usize::from(value.is_null());
        }
        for at in waiting[before..waits].iter().map(|at| usize::from(*at)) {
            out[at] = probe.bucket(table.split.second(hashes[at]));
            prefetch(out[at], probe.geometry.lines);
        }
    }
    for at in waiting[..waits].iter().map(|at| usize::from(*at)) {
        out[at] = probe.find(out[at], hashes[at], keys, at);
    }
}

/// What a lookup needs of a table, close at hand.
struct Probe<'a, const W: usize> {
    table: &'a ExactTable,
    geometry: Geometry,
    start: *const u8,
    last: u64,
}

impl<'a, const W: usize> Probe<'a, W> {
    #[inline(always)]
    fn new(table: &'a ExactTable) -> Self {
        let geometry = table.buckets.geometry;
        assert!(W == 0 || W == geometry.words);
        Probe { table, geometry, start: table.buckets.start(), last: 0x80 << (8 * (geometry.slots - 1)) }
    }

    #[inline(always)]
    fn words(&self) -> usize {
        if W == 0 { self.geometry.words } else { W }
    }

    /// Asks for the first bucket of a key, and gives its hash and the bucket.
    #[inline(always)]
    fn begin(&self, keys: &[u64], at: usize) -> (u64, *const u8) {
        let key = &keys[at * self.words()..][..self.words()];
        let hash = self.table.seeds.hash(self.words(), |index| key[index]);
        let first = self.bucket(self.table.split.first(hash));
        prefetch(first, self.geometry.lines);
        (hash, first)
    }

    #[inline(always)]
    fn bucket(&self, bucket: usize) -> *const u8 {
        self.start.wrapping_add(bucket * self.geometry.bytes())
    }

    /// The value of a key in a bucket, null if it isn't there.
    #[inline(always)]
    fn find(&self, bucket: *const u8, hash: u64, keys: &[u64], at: usize) -> *const u8 {
        let g = &self.geometry;
        let key = &keys[at * self.words()..][..self.words()];
        // SAFETY: the bucket is one of the table's, whose first 8 bytes are in it.
        let tags = unsafe { bucket.cast::<u64>().read_unaligned() };
        let mut same = zero_bytes(u64::from_le(tags) ^ in_all_bytes(tag(hash))) & g.tag_mask;
        let any = same != 0;
        let slot = (same | self.last).trailing_zeros() as usize / 8;
        let mut value = bucket.wrapping_add(g.values + slot * g.value);
        let mut found = any & self.is_key(bucket, slot, key);
        // Several slots with one tag: rare, and then it is mostly the first.
        while same & same.wrapping_sub(1) != 0 && !found {
            same &= same - 1;
            let slot = same.trailing_zeros() as usize / 8;
            value = bucket.wrapping_add(g.values + slot * g.value);
            found = self.is_key(bucket, slot, key);
        }
        select_unpredictable(found, value, null())
    }

    /// Whether a slot's key is this one.
    #[inline(always)]
    fn is_key(&self, bucket: *const u8, slot: usize, key: &[u64]) -> bool {
        let g = &self.geometry;
        let start = bucket.wrapping_add(g.keys + slot * g.key);
        let mut differ = 0;
        // SAFETY: `slot` is less than `g.slots`, so the key's `g.key` bytes are in the bucket; there are 8 bytes for each word but
        // the last; and the bucket has at least 8 bytes before the end of a key (`Geometry`'s tests).
        unsafe {
            for (index, word) in key[..self.words() - 1].iter().enumerate() {
                differ |= u64::from_le(start.add(index * 8).cast::<u64>().read_unaligned()) ^ word;
            }
            let last = start.offset(g.key as isize - 8).cast::<u64>().read_unaligned();
            differ |= (u64::from_le(last) >> g.shift) ^ key[self.words() - 1];
        }
        differ == 0
    }
}
