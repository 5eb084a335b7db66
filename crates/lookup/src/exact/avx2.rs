//! Batch lookups of four keys at once (AVX2), for processors without the instructions of
//! [`super::avx512`] and for tables with buckets of one cache line.
//!
//! Each key is hashed separately; buckets and tags are computed from vectors of hashes. Each key is
//! compared with its whole bucket ([`BucketCompare`]), and the matching bytes are stored as a mask
//! for each key. Vectors of four masks yield the keys that were found, and their slots.
#![allow(unsafe_code)]

use super::ExactTable;
use super::bucket_layout::MAX_SLOTS;
use super::linear_hashing::LinearHashingAvx2;
use super::pattern::BucketCompare;
use crate::avx2::{AVX2_LANES, COMPACT_ORDER, SET_LANES};
use entries::prefetch;
use std::arch::x86_64::*;
use std::mem::MaybeUninit;

/// Number of vectors between prefetching buckets and reading them; it exceeds the number of cache
/// lines that a core can have in flight.
const PREFETCH_DISTANCE: usize = 8;
/// Prefetch distance in vectors for a table that fits in a second-level cache.
const PREFETCH_DISTANCE_SMALL: usize = 2;

/// Number of keys processed together; positions are stored as bytes.
const CHUNK_KEYS: usize = 256;

/// A word per key of a chunk, written before it is read.
type ChunkWords = [MaybeUninit<u64>; CHUNK_KEYS + AVX2_LANES];

/// Bucket addresses and comparison results of a chunk, in vectors of four.
#[repr(C, align(64))]
struct FourLaneProbes {
    /// Address of each key's bucket.
    buckets: ChunkWords,
    /// Bytes of the bucket that equal the key's.
    match_masks: ChunkWords,
}

/// Scratch memory for a chunk of keys.
#[repr(C, align(64))]
struct Avx2Scratch {
    hashes: ChunkWords,
    /// Tag of each key, in the lowest byte.
    tags: ChunkWords,
    first: FourLaneProbes,
    second: FourLaneProbes,
    /// Compacted lists of keys that missed in their first bucket: hashes, and positions in the
    /// chunk.
    missed_hashes: ChunkWords,
    missed_keys: [MaybeUninit<u8>; CHUNK_KEYS + AVX2_LANES],
}

/// Lookup of a chunk of keys of `WORDS` words.
struct ExactAvx2<'a, const WORDS: usize> {
    table: &'a ExactTable,
    pattern: &'a BucketCompare,
    split: LinearHashingAvx2,
    start: __m256i,
    bucket_bytes: __m256i,
    /// For each half of a bucket: shuffles for the key's first sixteen bytes and for the later
    /// bytes.
    spread: [[__m256i; 2]; 2],
    /// Bytes of a bucket that are tags.
    tags: __m256i,
    keys: *const u64,
}

/// Returns whether the processor has the instructions that [`lookup`] needs.
#[inline(always)]
pub(super) fn is_available() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("bmi2") && is_x86_feature_detected!("popcnt")
}

/// Returns whether [`lookup`] supports the table's bucket layout.
#[inline(always)]
pub(super) fn supports_table(table: &ExactTable) -> bool {
    let g = &table.buckets.layout;
    g.line_count == 1 && g.key_words <= 3
}

/// Looks up keys, one for each element of `out`.
///
/// # Safety
/// [`is_available`] and [`supports_table`] are true, the table has buckets, and `keys` holds all
/// words of the keys.
pub(super) unsafe fn lookup(table: &ExactTable, keys: &[u64], out: &mut [*const u8]) {
    let words = table.buckets.layout.key_words;
    for (keys, out) in keys.chunks(CHUNK_KEYS * words).zip(out.chunks_mut(CHUNK_KEYS)) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            match words {
                1 => lookup_chunk::<1>(table, keys, out),
                2 => lookup_chunk::<2>(table, keys, out),
                _ => lookup_chunk::<3>(table, keys, out),
            }
        }
    }
}

#[target_feature(enable = "avx2,bmi2,popcnt")]
unsafe fn lookup_chunk<const WORDS: usize>(table: &ExactTable, keys: &[u64], out: &mut [*const u8]) {
    let quads = ExactAvx2::<WORDS>::new(table, keys);
    let mut scratch = MaybeUninit::<Avx2Scratch>::uninit();
    // SAFETY: all of the scratch memory may be uninitialised; the caller guarantees the rest.
    unsafe {
        let scratch = scratch.assume_init_mut();
        let waits = quads.probe_first_buckets(scratch, out);
        quads.probe_second_buckets(scratch, waits, out);
    }
}

impl<'a, const WORDS: usize> ExactAvx2<'a, WORDS> {
    #[inline]
    #[target_feature(enable = "avx2,bmi2,popcnt")]
    fn new(table: &'a ExactTable, keys: &[u64]) -> Self {
        let g = &table.buckets.layout;
        assert!(WORDS == g.key_words && g.line_count == 1, "one line, and {WORDS} words of a key");
        // SAFETY: 32 bytes.
        let load = |bytes: &[u8; 32]| unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) };
        let mut tags = [0_u8; 32];
        tags[..g.slot_count].fill(0xff);
        ExactAvx2 {
            table,
            pattern: &table.bucket_compare,
            split: LinearHashingAvx2::new(&table.hashing),
            start: _mm256_set1_epi64x(table.buckets.base_ptr() as i64),
            bucket_bytes: _mm256_set1_epi64x(g.bucket_bytes() as i64),
            spread: table.bucket_compare.half_shuffles.each_ref().map(|half| half.each_ref().map(load)),
            tags: load(&tags),
            keys: keys.as_ptr(),
        }
    }

    /// Probes the first buckets of all keys. Appends missed keys to the lists and prefetches their
    /// second buckets. Returns the number of missed keys.
    #[inline]
    #[target_feature(enable = "avx2,bmi2,popcnt")]
    unsafe fn probe_first_buckets(&self, scratch: &mut Avx2Scratch, out: &mut [*const u8]) -> usize {
        let Avx2Scratch { hashes, tags, first, second, missed_hashes, missed_keys } = scratch;
        let count = out.len().min(CHUNK_KEYS);
        let blocks = count.div_ceil(AVX2_LANES);
        let is_cached = self.table.hashing.bucket_count() <= self.table.buckets.layout.small_max_buckets;
        let prefetch_distance = if is_cached { PREFETCH_DISTANCE_SMALL } else { PREFETCH_DISTANCE };
        let (mut missed_count, mut second_chosen) = (0, 0);
        // Each stage processes a block in a later round, because words just written one by one
        // cannot be loaded as a vector without a stall.
        for round in 0..blocks + prefetch_distance + 2 {
            // SAFETY: blocks are those of a chunk, and each stage reads data that an earlier one
            // has written.
            unsafe {
                if round < blocks {
                    self.hash_block(hashes, round * AVX2_LANES, count);
                }
                let block = round.wrapping_sub(1);
                if block < blocks {
                    self.choose_first_buckets(hashes, tags, block * AVX2_LANES, first);
                }
                let block = round.wrapping_sub(1 + prefetch_distance);
                if block < blocks {
                    self.compare_block(first, tags, block * AVX2_LANES, count, |key| key);
                }
                let block = round.wrapping_sub(2 + prefetch_distance);
                if block < blocks {
                    let start = block * AVX2_LANES;
                    let (values, missed) = self.resolve_values(first, start);
                    let key_count = (count - start).min(AVX2_LANES);
                    store_values(out, start, key_count, values);
                    // Whole vectors are stored, because the lists have space after their end; later
                    // stores overwrite the excess.
                    let missed = missed & ((1 << key_count) - 1);
                    let order = load_bytes(COMPACT_ORDER[missed].as_ptr());
                    let hashes = _mm256_permutevar8x32_epi32(load_words(hashes, start), order);
                    _mm256_storeu_si256(missed_hashes.as_mut_ptr().add(missed_count).cast(), hashes);
                    let positions = u32::from_le_bytes(SET_LANES[missed]) + start as u32 * 0x0101_0101;
                    missed_keys.as_mut_ptr().add(missed_count).cast::<u32>().write_unaligned(positions.to_le());
                    missed_count += missed.count_ones() as usize;
                    if missed_count >= second_chosen + AVX2_LANES {
                        self.choose_second_buckets(second, missed_hashes, second_chosen);
                        second_chosen += AVX2_LANES;
                    }
                }
            }
        }
        if second_chosen < missed_count {
            // SAFETY: the first of them is on the list, and four words follow the last.
            unsafe { self.choose_second_buckets(second, missed_hashes, second_chosen) };
        }
        missed_count
    }

    /// Probes the second buckets of the missed keys.
    #[inline]
    #[target_feature(enable = "avx2,bmi2,popcnt")]
    unsafe fn probe_second_buckets(&self, scratch: &mut Avx2Scratch, missed_count: usize, out: &mut [*const u8]) {
        let Avx2Scratch { tags, second, missed_keys, .. } = scratch;
        let missed_count = missed_count.min(CHUNK_KEYS);
        let blocks = missed_count.div_ceil(AVX2_LANES);
        // SAFETY: blocks are those of a chunk, the lists are read up to their length, and positions
        // are indices of `out`.
        unsafe {
            for round in 0..blocks + 1 {
                if round < blocks {
                    self.compare_block(second, tags, round * AVX2_LANES, missed_count, |position| {
                        usize::from(missed_keys[position].assume_init())
                    });
                }
                let block = round.wrapping_sub(1);
                if block < blocks {
                    let start = block * AVX2_LANES;
                    let mut values = [0u64; AVX2_LANES];
                    _mm256_storeu_si256(values.as_mut_ptr().cast(), self.resolve_values(second, start).0);
                    for (key_index, value) in missed_keys[start..missed_count].iter().zip(values) {
                        *out.get_unchecked_mut(usize::from(key_index.assume_init())) = value as *const u8;
                    }
                }
            }
        }
    }

    /// Hashes four keys from `start` on. Hashes beyond the last key, number `count - 1`, are 0.
    #[inline]
    #[target_feature(enable = "avx2,bmi2,popcnt")]
    unsafe fn hash_block(&self, hashes: &mut ChunkWords, start: usize, count: usize) {
        let seeds = self.table.seeds;
        // SAFETY: `index` is less than `count`, all words of the keys exist, and hashes have four
        // more words.
        let hash_key = |index: usize| unsafe {
            let key = self.keys.add(index * WORDS);
            seeds.hash(WORDS, |word| key.add(word).read())
        };
        // SAFETY: as above.
        let block = unsafe { &mut *hashes.as_mut_ptr().add(start).cast::<[MaybeUninit<u64>; AVX2_LANES]>() };
        if start + AVX2_LANES <= count {
            for (lane, hash) in block.iter_mut().enumerate() {
                hash.write(hash_key(start + lane));
            }
        } else {
            for (lane, hash) in block.iter_mut().enumerate() {
                hash.write(if start + lane < count { hash_key(start + lane) } else { 0 });
            }
        }
    }

    /// Computes the tags of four keys and prefetches their first buckets.
    #[inline]
    #[target_feature(enable = "avx2,bmi2,popcnt")]
    unsafe fn choose_first_buckets(
        &self,
        hashes: &ChunkWords,
        tags: &mut ChunkWords,
        start: usize,
        visits: &mut FourLaneProbes,
    ) {
        // SAFETY: hashes have been written.
        unsafe {
            let hashes = load_words(hashes, start);
            let mixed = _mm256_xor_si256(_mm256_srli_epi64::<48>(hashes), _mm256_srli_epi64::<12>(hashes));
            store_words(tags, start, _mm256_max_epu8(mixed, _mm256_set1_epi64x(1)));
            self.prefetch_buckets(_mm256_srli_epi64::<32>(hashes), visits, start);
        }
    }

    /// Prefetches the second buckets of four missed keys.
    #[inline]
    #[target_feature(enable = "avx2,bmi2,popcnt")]
    unsafe fn choose_second_buckets(&self, visits: &mut FourLaneProbes, missed_hashes: &ChunkWords, start: usize) {
        // SAFETY: the first of them is on the list, and four words follow the last.
        let hashes = unsafe { load_words(missed_hashes, start) };
        // SAFETY: as above.
        unsafe { self.prefetch_buckets(_mm256_and_si256(hashes, _mm256_set1_epi64x(0xffff_ffff)), visits, start) };
    }

    /// Stores and prefetches the addresses of the buckets that hash halves choose.
    #[inline]
    #[target_feature(enable = "avx2,bmi2,popcnt")]
    unsafe fn prefetch_buckets(&self, halves: __m256i, visits: &mut FourLaneProbes, start: usize) {
        let buckets = self.split.buckets_of_halves(halves);
        let starts = _mm256_add_epi64(_mm256_mul_epu32(buckets, self.bucket_bytes), self.start);
        // SAFETY: the words read were written just before.
        unsafe {
            store_words(&mut visits.buckets, start, starts);
            for at in start..start + AVX2_LANES {
                prefetch(visits.buckets.get_unchecked(at).assume_init() as *const u8, 1);
            }
        }
    }

    /// Compares up to four keys with their buckets: the two halves of a bucket with the bytes that
    /// it would have if the key were in each slot. `key_index` returns the index of the key at a
    /// position.
    #[inline]
    #[target_feature(enable = "avx2,bmi2,popcnt")]
    unsafe fn compare_block(
        &self,
        visits: &mut FourLaneProbes,
        tags: &ChunkWords,
        start: usize,
        count: usize,
        key_index: impl Fn(usize) -> usize,
    ) {
        let mut compare_key = |position: usize| {
            let key_index = key_index(position);
            // SAFETY: the key's words exist, its tag and bucket are written, and a bucket has 64
            // aligned bytes.
            unsafe {
                let bucket = visits.buckets.get_unchecked(position).assume_init() as *const u8;
                let tag = _mm256_set1_epi8(tags.get_unchecked(key_index).assume_init() as i8);
                let low = _mm256_or_si256(self.expected_bytes(0, key_index), _mm256_and_si256(tag, self.tags));
                let low = _mm256_cmpeq_epi8(_mm256_load_si256(bucket.cast()), low);
                let high =
                    _mm256_cmpeq_epi8(_mm256_load_si256(bucket.add(32).cast()), self.expected_bytes(1, key_index));
                let (low, high) = (_mm256_movemask_epi8(low) as u32, _mm256_movemask_epi8(high) as u32);
                visits.match_masks.get_unchecked_mut(position).write(u64::from(low) | u64::from(high) << 32);
            }
        };
        if start + AVX2_LANES <= count {
            (start..start + AVX2_LANES).for_each(compare_key);
        } else {
            (start..count).for_each(&mut compare_key);
        }
    }

    /// Returns the bytes of a key at their positions in half a bucket.
    #[inline]
    #[target_feature(enable = "avx2,bmi2,popcnt")]
    unsafe fn expected_bytes(&self, half: usize, key_index: usize) -> __m256i {
        // SAFETY: reads only the words of the key.
        unsafe {
            let key = self.keys.add(key_index * WORDS);
            if WORDS == 1 {
                return _mm256_shuffle_epi8(_mm256_set1_epi64x(key.read() as i64), self.spread[half][0]);
            }
            let first = _mm256_broadcastsi128_si256(_mm_loadu_si128(key.cast()));
            let first = _mm256_shuffle_epi8(first, self.spread[half][0]);
            if WORDS == 2 {
                return first;
            }
            let rest = _mm256_set1_epi64x(key.add(2).read() as i64);
            _mm256_or_si256(first, _mm256_shuffle_epi8(rest, self.spread[half][1]))
        }
    }

    /// Returns the value addresses of four keys, null for missed keys, and the mask of missed keys.
    #[inline]
    #[target_feature(enable = "avx2,bmi2,popcnt")]
    unsafe fn resolve_values(&self, visits: &FourLaneProbes, start: usize) -> (__m256i, usize) {
        let mut places = _mm256_setzero_si256();
        // SAFETY: the results of unwritten lanes are ignored.
        let (same, buckets) = unsafe { (load_words(&visits.match_masks, start), load_words(&visits.buckets, start)) };
        let line = &self.pattern.lines[0];
        for slot in 0..self.table.buckets.layout.slot_count.min(MAX_SLOTS) {
            let bytes = _mm256_set1_epi64x(line.slot_masks[slot] as i64);
            let here = _mm256_cmpeq_epi64(_mm256_and_si256(same, bytes), bytes);
            let place = _mm256_set1_epi64x(self.pattern.value_offsets[slot] as i64);
            places = _mm256_or_si256(places, _mm256_and_si256(here, place));
        }
        let missed = _mm256_cmpeq_epi64(places, _mm256_setzero_si256());
        let values = _mm256_andnot_si256(missed, _mm256_add_epi64(buckets, places));
        (values, _mm256_movemask_pd(_mm256_castsi256_pd(missed)) as usize)
    }
}

/// Writes the first `there` of four values to `out`.
///
/// # Safety
/// `out` has `there` elements from `start` on.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn store_values(out: &mut [*const u8], start: usize, there: usize, values: __m256i) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let to = out.as_mut_ptr().add(start);
        if there == AVX2_LANES {
            return _mm256_storeu_si256(to.cast(), values);
        }
        let mut each = [0u64; AVX2_LANES];
        _mm256_storeu_si256(each.as_mut_ptr().cast(), values);
        for (at, value) in each[..there].iter().enumerate() {
            to.add(at).write(*value as *const u8);
        }
    }
}

/// Loads a vector.
///
/// # Safety
/// `from` points to 32 bytes.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn load_bytes(from: *const u32) -> __m256i {
    // SAFETY: guaranteed by the caller.
    unsafe { _mm256_loadu_si256(from.cast()) }
}

/// Loads four words.
///
/// # Safety
/// `start` is at most [`CHUNK_KEYS`], and the caller ignores unwritten words.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn load_words(words: &ChunkWords, start: usize) -> __m256i {
    // SAFETY: guaranteed by the caller; four words follow the last key's.
    unsafe { _mm256_loadu_si256(words.as_ptr().add(start).cast()) }
}

/// Stores four words.
///
/// # Safety
/// `start` is at most [`CHUNK_KEYS`].
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn store_words(words: &mut ChunkWords, start: usize, vector: __m256i) {
    // SAFETY: guaranteed by the caller.
    unsafe { _mm256_storeu_si256(words.as_mut_ptr().add(start).cast(), vector) }
}

const _: () = assert!(CHUNK_KEYS.is_multiple_of(AVX2_LANES) && CHUNK_KEYS <= 256);
