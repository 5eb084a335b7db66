//! Batch lookups: memory is prefetched long before its use, and no branch depends on the results.
//!
//! Each key is hashed and its first bucket prefetched, [`PREFETCH_DISTANCE`] keys before the
//! comparison. The tags of all slots are compared at once, then one key. A key that is not in its
//! first bucket (about one in three in a large table) is added to a list and its second bucket is
//! prefetched. The list is processed at the end. This is the scalar version for all processors;
//! [`super::avx512`] and [`super::avx2`] are the vector versions.
#![allow(unsafe_code)]

use super::ExactTable;
use super::bucket_layout::{BucketLayout, broadcast_tag, zero_bytes};
use super::hash::hash_tag;
use entries::prefetch;
use std::hint::select_unpredictable;
use std::ptr::null;

/// Number of keys between prefetching a bucket and reading it. Best measured value; it exceeds the
/// number of cache lines that a core can have in flight.
const PREFETCH_DISTANCE: usize = 48;
/// Number of keys after which the second buckets of missed keys are prefetched.
const SECOND_BUCKET_BLOCK: usize = 16;
/// Number of keys processed together.
pub(super) const CHUNK_KEYS: usize = 512;

impl ExactTable {
    /// Looks up consecutive keys of the table's key length. Writes to `out`, for each key, the
    /// address of its value, or null on a miss. At least 8 bytes may be read at that address, or 16
    /// if the table has longer values, until the table is changed.
    ///
    /// # Panics
    /// If `keys` does not hold one key for each element of `out`.
    pub fn lookup_batch(&self, keys: &[u64], out: &mut [*const u8]) {
        let words = self.buckets.layout.key_words;
        assert_eq!(keys.len(), out.len() * words, "{} results for {} words of keys", out.len(), keys.len());
        self.lookup_with_simd(keys, out, SimdLevel::detect());
    }

    /// Returns whether this processor supports the AVX-512 lookup of eight keys at once.
    pub fn supports_avx512() -> bool {
        matches!(SimdLevel::detect(), SimdLevel::Avx512(_))
    }

    /// Looks up keys as `lookup_batch` does, with the given vector instructions.
    pub(super) fn lookup_with_simd(&self, keys: &[u64], out: &mut [*const u8], vectors: SimdLevel) {
        if self.hashing.bucket_count() == 0 {
            return out.fill(null());
        }
        let words = self.buckets.layout.key_words;
        for start in (0..out.len()).step_by(CHUNK_KEYS) {
            let end = out.len().min(start + CHUNK_KEYS);
            let (keys, out) = (&keys[start * words..end * words], &mut out[start..end]);
            assert_eq!(keys.len(), out.len() * words);
            match vectors {
                #[cfg(target_arch = "x86_64")]
                // SAFETY: the value proves that the processor has them; there are buckets, and all
                // words of the keys.
                SimdLevel::Avx512(_) => {
                    unsafe { super::avx512::lookup(self, keys, out) };
                    continue;
                }
                #[cfg(target_arch = "x86_64")]
                // SAFETY: as above, and the table is supported.
                SimdLevel::Avx2(_) if super::avx2::supports_table(self) => {
                    unsafe { super::avx2::lookup(self, keys, out) };
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
        if self.buckets.layout.has_overflow {
            self.resolve_overflow(out);
        }
        if !self.stash.is_empty() {
            self.lookup_stash(keys, out);
        }
    }

    /// Prefetches both buckets of a key before its insertion, removal or lookup.
    pub fn prefetch(&self, key: &[u64]) {
        if self.hashing.bucket_count() > 0 && key.len() == self.buckets.layout.key_words {
            let hash = self.hash_key(key);
            self.prefetch_bucket(self.hashing.first_bucket(hash));
            self.prefetch_bucket(self.hashing.second_bucket(hash));
        }
    }

    #[inline(always)]
    pub(super) fn prefetch_bucket(&self, bucket: usize) {
        let start = self.buckets.base_ptr().wrapping_add(bucket * self.buckets.layout.bucket_bytes());
        prefetch(start, self.buckets.layout.line_count);
    }

    /// Replaces pointers to overflow slots by pointers to their cells.
    fn resolve_overflow(&self, out: &mut [*const u8]) {
        let inline = self.buckets.layout.inline_bytes;
        let (cells, cell_bytes) = self.overflow.cells_ptr();
        for value in out.iter_mut().filter(|value| !value.is_null()) {
            // SAFETY: it points to a slot's value; the overflow flag follows the `inline_bytes`; if
            // the flag is set, the first four bytes are a cell number.
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
    fn lookup_stash(&self, keys: &[u64], out: &mut [*const u8]) {
        for (key, out) in keys.chunks(self.buckets.layout.key_words).zip(out) {
            if out.is_null() {
                *out = self.stash.get(key).map_or(null(), |value| value.as_ptr());
            }
        }
    }
}

/// Proof that the processor has the required instructions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct CpuFeatureProof(());

/// Vector instructions that a lookup uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SimdLevel {
    /// One key at a time.
    Scalar,
    /// Four keys at once, if the table's buckets allow it.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    Avx2(CpuFeatureProof),
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    Avx512(CpuFeatureProof),
}

impl SimdLevel {
    /// Returns the widest vectors that the processor has.
    #[inline(always)]
    pub(super) fn detect() -> SimdLevel {
        #[cfg(target_arch = "x86_64")]
        if super::avx512::is_available() {
            return SimdLevel::Avx512(CpuFeatureProof(()));
        } else if super::avx2::is_available() {
            return SimdLevel::Avx2(CpuFeatureProof(()));
        }
        SimdLevel::Scalar
    }

    /// Returns all variants that the processor supports.
    #[cfg(test)]
    pub(super) fn all_supported() -> Vec<SimdLevel> {
        let mut all = vec![SimdLevel::Scalar];
        #[cfg(target_arch = "x86_64")]
        {
            all.extend(super::avx2::is_available().then_some(SimdLevel::Avx2(CpuFeatureProof(()))));
            all.extend(super::avx512::is_available().then_some(SimdLevel::Avx512(CpuFeatureProof(()))));
        }
        all
    }
}

#[cfg(target_arch = "x86_64")]
fn lookup<const W: usize>(table: &ExactTable, keys: &[u64], out: &mut [*const u8]) {
    /// The same code compiled with multiplication and bit counting instructions of newer
    /// processors.
    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt")]
    fn lookup_v3<const W: usize>(table: &ExactTable, keys: &[u64], out: &mut [*const u8]) {
        lookup_chunk::<W>(table, keys, out);
    }
    let v3 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("bmi2");
    if v3 && is_x86_feature_detected!("bmi1") && is_x86_feature_detected!("lzcnt") {
        // SAFETY: the processor has the enabled features.
        unsafe { lookup_v3::<W>(table, keys, out) }
    } else {
        lookup_chunk::<W>(table, keys, out);
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn lookup<const W: usize>(table: &ExactTable, keys: &[u64], out: &mut [*const u8]) {
    lookup_chunk::<W>(table, keys, out);
}

/// Looks up at most [`CHUNK_KEYS`] keys. `W` is the number of words of a key; 0 takes it from the
/// table. The table must have buckets.
/// Keys that are not in their first bucket wait until the block's end for the second, which is then
/// prefetched.
#[inline(always)]
fn lookup_chunk<const W: usize>(table: &ExactTable, keys: &[u64], out: &mut [*const u8]) {
    let probe = ProbeView::<W>::new(table);
    let mut hashes = [0u64; CHUNK_KEYS];
    let mut missed = [0u16; CHUNK_KEYS];
    let mut missed_count = 0;
    let count = out.len();
    let distance = PREFETCH_DISTANCE.min(count);
    // Until its comparison, a key's element of `out` holds the address of its bucket.
    for index in 0..distance {
        (hashes[index], out[index]) = probe.hash_and_prefetch(keys, index);
    }
    for block in (0..count).step_by(SECOND_BUCKET_BLOCK) {
        let missed_before = missed_count;
        for index in block..count.min(block + SECOND_BUCKET_BLOCK) {
            if index + distance < count {
                (hashes[index + distance], out[index + distance]) = probe.hash_and_prefetch(keys, index + distance);
            }
            let value = probe.find_value(out[index], hashes[index], keys, index);
            out[index] = value;
            // Branch-free, because whether a key is in its second bucket is unpredictable.
            missed[missed_count] = index as u16;
            missed_count += usize::from(value.is_null());
        }
        for index in missed[missed_before..missed_count].iter().map(|index| usize::from(*index)) {
            out[index] = probe.bucket_ptr(table.hashing.second_bucket(hashes[index]));
            prefetch(out[index], probe.layout.line_count);
        }
    }
    for index in missed[..missed_count].iter().map(|index| usize::from(*index)) {
        out[index] = probe.find_value(out[index], hashes[index], keys, index);
    }
}

/// Fields of a table that a lookup needs, copied out of the table.
struct ProbeView<'a, const W: usize> {
    table: &'a ExactTable,
    layout: BucketLayout,
    start: *const u8,
    last_slot_bit: u64,
}

impl<'a, const W: usize> ProbeView<'a, W> {
    #[inline(always)]
    fn new(table: &'a ExactTable) -> Self {
        let layout = table.buckets.layout;
        assert!(W == 0 || W == layout.key_words);
        ProbeView {
            table,
            layout,
            start: table.buckets.base_ptr(),
            last_slot_bit: 0x80 << (8 * (layout.slot_count - 1)),
        }
    }

    #[inline(always)]
    fn words(&self) -> usize {
        if W == 0 { self.layout.key_words } else { W }
    }

    /// Prefetches the first bucket of a key and returns its hash and the bucket.
    #[inline(always)]
    fn hash_and_prefetch(&self, keys: &[u64], at: usize) -> (u64, *const u8) {
        let key = &keys[at * self.words()..][..self.words()];
        let hash = self.table.seeds.hash(self.words(), |index| key[index]);
        let first = self.bucket_ptr(self.table.hashing.first_bucket(hash));
        prefetch(first, self.layout.line_count);
        (hash, first)
    }

    #[inline(always)]
    fn bucket_ptr(&self, bucket: usize) -> *const u8 {
        self.start.wrapping_add(bucket * self.layout.bucket_bytes())
    }

    /// Returns the address of a key's value in a bucket, or null if the bucket lacks the key.
    #[inline(always)]
    fn find_value(&self, bucket: *const u8, hash: u64, keys: &[u64], at: usize) -> *const u8 {
        let g = &self.layout;
        let key = &keys[at * self.words()..][..self.words()];
        // SAFETY: the bucket belongs to the table and has at least 8 bytes.
        let tags = unsafe { bucket.cast::<u64>().read_unaligned() };
        let mut same = zero_bytes(u64::from_le(tags) ^ broadcast_tag(hash_tag(hash))) & g.tag_mask;
        let any = same != 0;
        let slot = (same | self.last_slot_bit).trailing_zeros() as usize / 8;
        let mut value = bucket.wrapping_add(g.values_offset + slot * g.value_stride);
        let mut found = any & self.key_matches(bucket, slot, key);
        // Several slots rarely have the same tag, and then the first one usually matches.
        while same & same.wrapping_sub(1) != 0 && !found {
            same &= same - 1;
            let slot = same.trailing_zeros() as usize / 8;
            value = bucket.wrapping_add(g.values_offset + slot * g.value_stride);
            found = self.key_matches(bucket, slot, key);
        }
        select_unpredictable(found, value, null())
    }

    /// Returns whether a slot holds this key.
    #[inline(always)]
    fn key_matches(&self, bucket: *const u8, slot: usize, key: &[u64]) -> bool {
        let g = &self.layout;
        let start = bucket.wrapping_add(g.keys_offset + slot * g.key_bytes);
        let mut differ = 0;
        // SAFETY: `slot` is less than `slot_count`, so the key's `key_bytes` are in the bucket. All
        // words but the last have 8 bytes, and the bucket has at least 8 bytes before the end of a
        // key (tests of `BucketLayout`).
        unsafe {
            for (index, word) in key[..self.words() - 1].iter().enumerate() {
                differ |= u64::from_le(start.add(index * 8).cast::<u64>().read_unaligned()) ^ word;
            }
            let last = start.offset(g.key_bytes as isize - 8).cast::<u64>().read_unaligned();
            differ |= (u64::from_le(last) >> g.last_word_shift) ^ key[self.words() - 1];
        }
        differ == 0
    }
}
