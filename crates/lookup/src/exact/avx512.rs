//! Batch lookups of eight keys at once (AVX-512): the algorithm of [`super::probe`] with as few
//! instructions as possible.
//!
//! Each key is hashed separately; buckets and tags are computed from vectors of eight hashes. Each
//! key is then compared with its whole bucket ([`BucketCompare`]), without a loop over matching
//! tags and without a branch. The differing bytes are stored as a mask for each key. Vectors of
//! eight masks yield the keys that were found, and their slots.
#![allow(unsafe_code)]

use super::ExactTable;
use super::bucket_layout::{LINE_BYTES, MAX_SLOTS};
use super::linear_hashing::LinearHashingAvx512;
use super::pattern::{BucketCompare, LineCompare};
use super::probe::CHUNK_KEYS;
use crate::avx512::{AVX512_LANES, Words8, first_lanes, load_words};
use entries::prefetch;
use std::arch::x86_64::*;
use std::mem::MaybeUninit;

/// Number of vectors between prefetching buckets and reading them. Best measured value; it exceeds
/// the number of cache lines that a core can have in flight.
const PREFETCH_DISTANCE: usize = 12;
/// Prefetch distance in vectors for a table that fits in a second-level cache.
const PREFETCH_DISTANCE_SMALL: usize = 1;
/// Vectors of a chunk.
const CHUNK_BLOCKS: usize = CHUNK_KEYS / AVX512_LANES;

/// Bucket addresses and comparison results of eight keys.
#[repr(C, align(64))]
struct BucketProbes<const LINES: usize> {
    /// Address of each key's bucket.
    buckets: Words8,
    /// For each line of the bucket, the bytes that differ from the key's.
    mismatch_masks: [Words8; LINES],
}

/// Compacted list of keys that missed in their first bucket, with space for a vector after the
/// last.
#[repr(C, align(64))]
struct SecondProbeKeys {
    /// Positions in the chunk.
    key_indices: [MaybeUninit<u64>; CHUNK_KEYS + AVX512_LANES],
    hashes: [MaybeUninit<u64>; CHUNK_KEYS + AVX512_LANES],
    len: usize,
    /// Vectors of keys with chosen second buckets. All but the last of them are prefetched.
    prefetched: usize,
}

/// Scratch memory for a chunk of keys.
#[repr(C, align(64))]
struct ChunkScratch<const LINES: usize> {
    hashes: [Words8; CHUNK_BLOCKS],
    tags: [MaybeUninit<u8>; CHUNK_KEYS],
    first: [BucketProbes<LINES>; CHUNK_BLOCKS],
    second: [BucketProbes<LINES>; CHUNK_BLOCKS],
    waiting: SecondProbeKeys,
}

/// Lookup of a chunk of keys of `WORDS` words (0: taken from the table), in buckets of `LINES`
/// lines.
struct ExactAvx512<'a, const WORDS: usize, const LINES: usize> {
    table: &'a ExactTable,
    pattern: &'a BucketCompare,
    lines: &'a [LineCompare; LINES],
    split: LinearHashingAvx512,
    start: __m512i,
    bucket_bytes: __m512i,
    keys: *const u64,
}

/// Returns whether the processor has the instructions that [`lookup`] needs.
#[inline(always)]
pub(super) fn is_available() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vbmi")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("popcnt")
}

/// Looks up at most [`CHUNK_KEYS`] keys, one for each element of `out`.
///
/// # Safety
/// [`is_available`] is true, the table has buckets, and `keys` holds all words of the keys.
pub(super) unsafe fn lookup(table: &ExactTable, keys: &[u64], out: &mut [*const u8]) {
    let g = &table.buckets.layout;
    // SAFETY: guaranteed by the caller.
    unsafe {
        match (g.key_words, g.line_count) {
            (1, 1) => lookup_chunk::<1, 1>(table, keys, out),
            (2, 1) => lookup_chunk::<2, 1>(table, keys, out),
            (3, 1) => lookup_chunk::<3, 1>(table, keys, out),
            (_, 1) => lookup_chunk::<0, 1>(table, keys, out),
            (_, 2) => lookup_chunk::<0, 2>(table, keys, out),
            (_, 3) => lookup_chunk::<0, 3>(table, keys, out),
            _ => lookup_chunk::<0, 4>(table, keys, out),
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,bmi2,popcnt")]
unsafe fn lookup_chunk<const WORDS: usize, const LINES: usize>(
    table: &ExactTable,
    keys: &[u64],
    out: &mut [*const u8],
) {
    let lanes = ExactAvx512::<WORDS, LINES>::new(table, keys);
    let mut scratch = MaybeUninit::<ChunkScratch<LINES>>::uninit();
    // SAFETY: everything but the two counters may be uninitialised; the caller guarantees the rest.
    unsafe {
        let waiting = &raw mut (*scratch.as_mut_ptr()).waiting;
        (&raw mut (*waiting).len).write(0);
        (&raw mut (*waiting).prefetched).write(0);
        let scratch = scratch.assume_init_mut();
        lanes.probe_first_buckets(scratch, out);
        lanes.probe_second_buckets(scratch, out);
    }
}

impl<const LINES: usize> BucketProbes<LINES> {
    /// Prefetches the buckets. Reads the addresses from memory, because extracting them from a
    /// vector takes longer. They should have been stored some time before.
    ///
    /// # Safety
    /// The addresses have been written.
    #[inline(always)]
    unsafe fn prefetch_buckets(&self) {
        for bucket in &self.buckets {
            // SAFETY: guaranteed by the caller.
            prefetch(unsafe { bucket.assume_init() } as *const u8, LINES);
        }
    }
}

impl SecondProbeKeys {
    /// Appends those of eight keys that are in `missed`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi,bmi2,popcnt")]
    unsafe fn append_missed(&mut self, hashes: __m512i, start: usize, missed: __mmask8) {
        let key_index = _mm512_add_epi64(_mm512_set1_epi64(start as i64), _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0));
        // SAFETY: at most CHUNK_KEYS keys are appended, with space for eight more.
        unsafe {
            let (to_keys, to_hashes) =
                (self.key_indices.as_mut_ptr().add(self.len), self.hashes.as_mut_ptr().add(self.len));
            _mm512_storeu_si512(to_keys.cast(), _mm512_maskz_compress_epi64(missed, key_index));
            _mm512_storeu_si512(to_hashes.cast(), _mm512_maskz_compress_epi64(missed, hashes));
        }
        self.len += missed.count_ones() as usize;
    }
}

impl<'a, const WORDS: usize, const LINES: usize> ExactAvx512<'a, WORDS, LINES> {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi,bmi2,popcnt")]
    fn new(table: &'a ExactTable, keys: &[u64]) -> Self {
        let g = &table.buckets.layout;
        assert!(WORDS == 0 || WORDS == g.key_words, "words of a key");
        ExactAvx512 {
            table,
            pattern: &table.bucket_compare,
            lines: table.bucket_compare.lines.as_array().expect("one comparison per line of a bucket"),
            split: LinearHashingAvx512::new(&table.hashing),
            start: _mm512_set1_epi64(table.buckets.base_ptr() as i64),
            bucket_bytes: _mm512_set1_epi64(g.bucket_bytes() as i64),
            keys: keys.as_ptr(),
        }
    }

    #[inline(always)]
    fn words(&self) -> usize {
        if WORDS == 0 { self.table.buckets.layout.key_words } else { WORDS }
    }

    /// Probes the first buckets of all keys. Appends missed keys to the list and prefetches their
    /// second buckets, except those of the last vector.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi,bmi2,popcnt")]
    unsafe fn probe_first_buckets(&self, scratch: &mut ChunkScratch<LINES>, out: &mut [*const u8]) {
        let ChunkScratch { hashes, tags, first, second, waiting } = scratch;
        let count = out.len().min(CHUNK_KEYS);
        let blocks = count.div_ceil(AVX512_LANES);
        let is_cached = self.table.hashing.bucket_count() <= self.table.buckets.layout.small_max_buckets;
        let prefetch_distance = if is_cached { PREFETCH_DISTANCE_SMALL } else { PREFETCH_DISTANCE };
        // Each stage processes a block in a later round, because words just written one by one
        // cannot be loaded as a vector without a stall.
        for round in 0..blocks + prefetch_distance + 3 {
            // SAFETY: blocks are less than CHUNK_BLOCKS, and each stage reads data that an earlier
            // one has written.
            unsafe {
                if round < blocks {
                    self.hash_block(&mut hashes[round], round * AVX512_LANES, count);
                }
                let block = round.wrapping_sub(1);
                if block < blocks {
                    self.choose_first_buckets(
                        &hashes[block],
                        &mut tags[block * AVX512_LANES..][..AVX512_LANES],
                        &mut first[block],
                    );
                }
                let block = round.wrapping_sub(2);
                if block < blocks {
                    first[block].prefetch_buckets();
                }
                let block = round.wrapping_sub(2 + prefetch_distance);
                if block < blocks {
                    let start = block * AVX512_LANES;
                    self.compare_block(&mut first[block], tags, count - start, |lane| start + lane);
                }
                let block = round.wrapping_sub(3 + prefetch_distance);
                if block < blocks {
                    let start = block * AVX512_LANES;
                    let key_lanes = first_lanes(count - start);
                    let (values, missed) = self.resolve_values(&first[block]);
                    _mm512_mask_storeu_epi64(out.as_mut_ptr().add(start).cast(), key_lanes, values);
                    waiting.append_missed(load_words(&hashes[block]), start, missed & key_lanes);
                    if waiting.len >= (waiting.prefetched + 1) * AVX512_LANES {
                        self.choose_second_buckets(waiting, &mut second[waiting.prefetched]);
                        if waiting.prefetched > 0 {
                            second[waiting.prefetched - 1].prefetch_buckets();
                        }
                        waiting.prefetched += 1;
                    }
                }
            }
        }
    }

    /// Probes the second buckets of the missed keys.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi,bmi2,popcnt")]
    unsafe fn probe_second_buckets(&self, scratch: &mut ChunkScratch<LINES>, out: &mut [*const u8]) {
        let ChunkScratch { tags, second, waiting, .. } = scratch;
        let blocks = waiting.len.div_ceil(AVX512_LANES);
        // SAFETY: blocks are less than CHUNK_BLOCKS, the list is read up to its length, and its
        // positions are indices of `out`.
        unsafe {
            if waiting.prefetched > 0 {
                second[waiting.prefetched - 1].prefetch_buckets();
            }
            if waiting.prefetched < blocks {
                self.choose_second_buckets(waiting, &mut second[waiting.prefetched]);
                second[waiting.prefetched].prefetch_buckets();
            }
            for round in 0..blocks + 1 {
                if round < blocks {
                    let key_index = waiting.key_indices.as_ptr().add(round * AVX512_LANES);
                    let remaining = waiting.len - round * AVX512_LANES;
                    self.compare_block(&mut second[round], tags, remaining, |lane| {
                        key_index.add(lane).read().assume_init() as usize
                    });
                }
                let block = round.wrapping_sub(1);
                if block < blocks {
                    let mut values = [0u64; AVX512_LANES];
                    _mm512_storeu_si512(values.as_mut_ptr().cast(), self.resolve_values(&second[block]).0);
                    for (key_index, value) in waiting.key_indices[block * AVX512_LANES..waiting.len].iter().zip(values)
                    {
                        *out.get_unchecked_mut(key_index.assume_init() as usize) = value as *const u8;
                    }
                }
            }
        }
    }

    /// Hashes eight keys from `start` on. Hashes beyond the last key, number `count - 1`, are 0.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi,bmi2,popcnt")]
    unsafe fn hash_block(&self, hashes: &mut Words8, start: usize, count: usize) {
        let seeds = self.table.seeds;
        let hash = |at: usize| {
            // SAFETY: `start + at` is less than `count`, and all words of these keys exist.
            unsafe {
                let key = self.keys.add((start + at) * self.words());
                seeds.hash(self.words(), |word| key.add(word).read())
            }
        };
        if start + AVX512_LANES <= count {
            for (at, to) in hashes.iter_mut().enumerate() {
                to.write(hash(at));
            }
        } else {
            for (at, to) in hashes.iter_mut().enumerate() {
                to.write(if start + at < count { hash(at) } else { 0 });
            }
        }
    }

    /// Computes the tags and the first buckets of eight keys.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi,bmi2,popcnt")]
    unsafe fn choose_first_buckets(
        &self,
        hashes: &Words8,
        tags: &mut [MaybeUninit<u8>],
        visits: &mut BucketProbes<LINES>,
    ) {
        debug_assert_eq!(tags.len(), AVX512_LANES);
        // SAFETY: hashes have been written; `tags` are eight bytes.
        unsafe {
            let hashes = load_words(hashes);
            let mixed = _mm512_xor_si512(_mm512_srli_epi64::<48>(hashes), _mm512_srli_epi64::<12>(hashes));
            let bytes = _mm_max_epu8(_mm512_cvtepi64_epi8(mixed), _mm_set1_epi8(1));
            _mm_storel_epi64(tags.as_mut_ptr().cast(), bytes);
            self.store_bucket_addresses(_mm512_srli_epi64::<32>(hashes), visits);
        }
    }

    /// Chooses the second buckets of the next eight missed keys.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi,bmi2,popcnt")]
    unsafe fn choose_second_buckets(&self, waiting: &SecondProbeKeys, visits: &mut BucketProbes<LINES>) {
        // SAFETY: the first of them is on the list, which has a whole vector of space after its
        // end.
        unsafe {
            let hashes = _mm512_loadu_si512(waiting.hashes.as_ptr().add(waiting.prefetched * AVX512_LANES).cast());
            self.store_bucket_addresses(_mm512_and_si512(hashes, _mm512_set1_epi64(0xffff_ffff)), visits);
        }
    }

    /// Stores the addresses of the buckets that hash halves choose.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi,bmi2,popcnt")]
    unsafe fn store_bucket_addresses(&self, halves: __m512i, visits: &mut BucketProbes<LINES>) {
        let buckets = self.split.buckets_of_halves(halves);
        let starts = _mm512_add_epi64(_mm512_mul_epu32(buckets, self.bucket_bytes), self.start);
        // SAFETY: `buckets` is eight words, which are written here.
        unsafe {
            _mm512_store_si512(visits.buckets.as_mut_ptr().cast(), starts);
        }
    }

    /// Compares up to eight keys with their buckets: each line of a bucket with the bytes that it
    /// would have if the key were in each slot. `key_index` returns the index of a lane's key.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi,bmi2,popcnt")]
    unsafe fn compare_block(
        &self,
        visits: &mut BucketProbes<LINES>,
        tags: &[MaybeUninit<u8>; CHUNK_KEYS],
        count: usize,
        key_index: impl Fn(usize) -> usize,
    ) {
        let mut compare_key = |lane: usize| {
            let key_index = key_index(lane);
            // SAFETY: the key's words and all lines of its bucket exist.
            unsafe {
                let key = self.load_key(key_index);
                let bucket = visits.buckets[lane].assume_init() as *const u8;
                for line in 0..LINES {
                    let spread = _mm512_load_si512(self.lines[line].spread.as_ptr().cast());
                    let mut expected = _mm512_permutexvar_epi8(spread, key);
                    if line == 0 {
                        let tag = tags.get_unchecked(key_index).assume_init() as i8;
                        expected = _mm512_mask_set1_epi8(expected, self.pattern.tag_mask, tag);
                    }
                    let stored = _mm512_load_si512(bucket.add(LINE_BYTES * line).cast());
                    visits.mismatch_masks[line][lane].write(_mm512_cmpneq_epi8_mask(stored, expected));
                }
            }
        };
        if count >= AVX512_LANES {
            (0..AVX512_LANES).for_each(compare_key);
        } else {
            (0..count).for_each(&mut compare_key);
        }
    }

    /// Loads the words of a key, repeated (one word) or followed by zeros.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi,bmi2,popcnt")]
    unsafe fn load_key(&self, at: usize) -> __m512i {
        // SAFETY: guaranteed by the caller; masked to the words of the key.
        unsafe {
            let key = self.keys.add(at * self.words());
            if WORDS == 1 {
                _mm512_set1_epi64(key.read() as i64)
            } else {
                _mm512_maskz_loadu_epi64(first_lanes(self.words()), key.cast())
            }
        }
    }

    /// Returns the value addresses of eight keys, null for missed keys, and the mask of missed
    /// keys.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi,bmi2,popcnt")]
    unsafe fn resolve_values(&self, visits: &BucketProbes<LINES>) -> (__m512i, __mmask8) {
        let mut places = _mm512_setzero_si512();
        for slot in 0..self.table.buckets.layout.slot_count.min(MAX_SLOTS) {
            let mut here = !0;
            for line in 0..LINES {
                let bytes = _mm512_set1_epi64(self.lines[line].slot_masks[slot] as i64);
                // SAFETY: the results of unwritten lanes are ignored.
                here = _mm512_mask_testn_epi64_mask(here, unsafe { load_words(&visits.mismatch_masks[line]) }, bytes);
            }
            places = _mm512_mask_mov_epi64(places, here, _mm512_set1_epi64(self.pattern.value_offsets[slot] as i64));
        }
        let found = _mm512_test_epi64_mask(places, places);
        // SAFETY: bucket addresses have been written.
        (_mm512_maskz_add_epi64(found, unsafe { load_words(&visits.buckets) }, places), !found)
    }
}
