//! Lookups of many keys, four at once (AVX2), for processors without the vectors of [`super::lanes`], in tables whose buckets are one cache line.
//!
//! It goes the same way: a key is hashed for itself, buckets and tags come out of vectors of hashes, a key is compared with all of its bucket at
//! once ([`Pattern`]), and what is the same goes to memory as a mask for each key. Four masks together tell which keys have been found, and where.
#![allow(unsafe_code)]

use super::ExactTable;
use super::geometry::MAX_SLOTS;
use super::pattern::Pattern;
use super::split::SplitQuads;
use crate::four::{FOUR, LANES, ORDER};
use entries::prefetch;
use std::arch::x86_64::*;
use std::mem::MaybeUninit;

/// Vectors between asking for buckets and looking into them: more than the lines that a core can have under way.
const AHEAD: usize = 8;
/// The same for a table that stays in a near cache.
const AHEAD_NEAR: usize = 2;

/// Keys that are gone through together: their positions are bytes.
const CHUNK: usize = 256;

/// Words that are written before they are read.
type Words = [MaybeUninit<u64>; CHUNK + FOUR];

/// Keys on their way to their buckets, four by four.
#[repr(C, align(64))]
struct Visits {
    /// Where each key's bucket is.
    buckets: Words,
    /// The bytes of the bucket that are what they would be if the key were there.
    same: Words,
}

/// Room for a chunk of keys.
#[repr(C, align(64))]
struct Room {
    hashes: Words,
    /// Of each key the tag, in the lowest byte.
    tags: Words,
    first: Visits,
    second: Visits,
    /// Keys that were not in their first bucket, one after the other: hashes and positions in the chunk.
    waiting: Words,
    who: [MaybeUninit<u8>; CHUNK + FOUR],
}

/// A lookup of a chunk of keys of `WORDS` words.
struct Quads<'a, const WORDS: usize> {
    table: &'a ExactTable,
    pattern: &'a Pattern,
    split: SplitQuads,
    start: __m256i,
    bucket_bytes: __m256i,
    /// For each byte of a bucket's halves, the byte of the key's first sixteen that would be there, and of those behind.
    spread: [[__m256i; 2]; 2],
    /// The bytes of a bucket that are tags.
    tags: __m256i,
    keys: *const u64,
}

/// Whether the processor has what [`lookup`] needs.
#[inline(always)]
pub(super) fn available() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("bmi2") && is_x86_feature_detected!("popcnt")
}

/// Whether [`lookup`] is made for such buckets.
#[inline(always)]
pub(super) fn suits(table: &ExactTable) -> bool {
    let g = &table.buckets.geometry;
    g.lines == 1 && g.words <= 3
}

/// Looks up keys, one for each place of `out`.
///
/// # Safety
/// The processor has what [`available`] asks for, the table has buckets and [`suits`], and `keys` as many words as its keys take.
pub(super) unsafe fn lookup(table: &ExactTable, keys: &[u64], out: &mut [*const u8]) {
    let words = table.buckets.geometry.words;
    for (keys, out) in keys.chunks(CHUNK * words).zip(out.chunks_mut(CHUNK)) {
        // SAFETY: as promised to this function.
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
    let quads = Quads::<WORDS>::new(table, keys);
    let mut room = MaybeUninit::<Room>::uninit();
    // SAFETY: all of a room may be uninitialised; the rest is promised to this function.
    unsafe {
        let room = room.assume_init_mut();
        let waits = quads.first_buckets(room, out);
        quads.second_buckets(room, waits, out);
    }
}

impl<'a, const WORDS: usize> Quads<'a, WORDS> {
    #[inline]
    #[target_feature(enable = "avx2,bmi2,popcnt")]
    fn new(table: &'a ExactTable, keys: &[u64]) -> Self {
        let g = &table.buckets.geometry;
        assert!(WORDS == g.words && g.lines == 1, "one line, and {WORDS} words of a key");
        // SAFETY: 32 bytes.
        let load = |bytes: &[u8; 32]| unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) };
        let mut tags = [0_u8; 32];
        tags[..g.slots].fill(0xff);
        Quads {
            table,
            pattern: &table.pattern,
            split: SplitQuads::new(&table.split),
            start: _mm256_set1_epi64x(table.buckets.start() as i64),
            bucket_bytes: _mm256_set1_epi64x(g.bytes() as i64),
            spread: table.pattern.halves.each_ref().map(|half| half.each_ref().map(load)),
            tags: load(&tags),
            keys: keys.as_ptr(),
        }
    }

    /// Looks for all keys in their first buckets. Those that aren't there wait, all their second buckets being asked for. Gives how many.
    #[inline]
    #[target_feature(enable = "avx2,bmi2,popcnt")]
    unsafe fn first_buckets(&self, room: &mut Room, out: &mut [*const u8]) -> usize {
        let Room { hashes, tags, first, second, waiting, who } = room;
        let count = out.len().min(CHUNK);
        let blocks = count.div_ceil(FOUR);
        let near = self.table.split.buckets() <= self.table.buckets.geometry.small;
        let ahead = if near { AHEAD_NEAR } else { AHEAD };
        let (mut waits, mut asked) = (0, 0);
        // A block goes from stage to stage in later rounds: what has just been written word by word cannot be read as a vector at once.
        for round in 0..blocks + ahead + 2 {
            // SAFETY: blocks are those of a chunk, and each stage reads what the one before has written for the block.
            unsafe {
                if round < blocks {
                    self.hash(hashes, round * FOUR, count);
                }
                let block = round.wrapping_sub(1);
                if block < blocks {
                    self.begin(hashes, tags, block * FOUR, first);
                }
                let block = round.wrapping_sub(1 + ahead);
                if block < blocks {
                    self.compare(first, tags, block * FOUR, count, |at| at);
                }
                let block = round.wrapping_sub(2 + ahead);
                if block < blocks {
                    let start = block * FOUR;
                    let (values, missed) = self.values(first, start);
                    let there = (count - start).min(FOUR);
                    give(out, start, there, values);
                    // Behind the last there is room for whole vectors; the next ones are written over what is too much.
                    let missed = missed & ((1 << there) - 1);
                    let order = load_bytes(ORDER[missed].as_ptr());
                    let hashes = _mm256_permutevar8x32_epi32(load(hashes, start), order);
                    _mm256_storeu_si256(waiting.as_mut_ptr().add(waits).cast(), hashes);
                    let positions = u32::from_le_bytes(LANES[missed]) + start as u32 * 0x0101_0101;
                    who.as_mut_ptr().add(waits).cast::<u32>().write_unaligned(positions.to_le());
                    waits += missed.count_ones() as usize;
                    if waits >= asked + FOUR {
                        self.visit(second, waiting, asked);
                        asked += FOUR;
                    }
                }
            }
        }
        if asked < waits {
            // SAFETY: the first of them waits, and behind the last there are four words.
            unsafe { self.visit(second, waiting, asked) };
        }
        waits
    }

    /// Looks for those who wait in their second buckets.
    #[inline]
    #[target_feature(enable = "avx2,bmi2,popcnt")]
    unsafe fn second_buckets(&self, room: &mut Room, waits: usize, out: &mut [*const u8]) {
        let Room { tags, second, who, .. } = room;
        let waits = waits.min(CHUNK);
        let blocks = waits.div_ceil(FOUR);
        // SAFETY: blocks are those of a chunk, the lists are read as far as they are long, and they have positions of places in `out`.
        unsafe {
            for round in 0..blocks + 1 {
                if round < blocks {
                    self.compare(second, tags, round * FOUR, waits, |at| usize::from(who[at].assume_init()));
                }
                let block = round.wrapping_sub(1);
                if block < blocks {
                    let start = block * FOUR;
                    let mut values = [0u64; FOUR];
                    _mm256_storeu_si256(values.as_mut_ptr().cast(), self.values(second, start).0);
                    for (who, value) in who[start..waits].iter().zip(values) {
                        *out.get_unchecked_mut(usize::from(who.assume_init())) = value as *const u8;
                    }
                }
            }
        }
    }

    /// The hashes of four keys from `start` on. Behind the last key, which is number `count - 1`, they are 0.
    #[inline]
    #[target_feature(enable = "avx2,bmi2,popcnt")]
    unsafe fn hash(&self, hashes: &mut Words, start: usize, count: usize) {
        let seeds = self.table.seeds;
        // SAFETY: `at` is less than `count` or not looked at; of the keys there are so many words, and of the hashes four more.
        let one = |at: usize| unsafe {
            let key = self.keys.add(at * WORDS);
            seeds.hash(WORDS, |word| key.add(word).read())
        };
        // SAFETY: as above.
        let to = unsafe { &mut *hashes.as_mut_ptr().add(start).cast::<[MaybeUninit<u64>; FOUR]>() };
        if start + FOUR <= count {
            for (at, to) in to.iter_mut().enumerate() {
                to.write(one(start + at));
            }
        } else {
            for (at, to) in to.iter_mut().enumerate() {
                to.write(if start + at < count { one(start + at) } else { 0 });
            }
        }
    }

    /// Tags of four keys, and asks for their first buckets.
    #[inline]
    #[target_feature(enable = "avx2,bmi2,popcnt")]
    unsafe fn begin(&self, hashes: &Words, tags: &mut Words, start: usize, visits: &mut Visits) {
        // SAFETY: hashes have been written.
        unsafe {
            let hashes = load(hashes, start);
            let mixed = _mm256_xor_si256(_mm256_srli_epi64::<48>(hashes), _mm256_srli_epi64::<12>(hashes));
            store(tags, start, _mm256_max_epu8(mixed, _mm256_set1_epi64x(1)));
            self.ask(_mm256_srli_epi64::<32>(hashes), visits, start);
        }
    }

    /// Asks for the second buckets of four keys that wait.
    #[inline]
    #[target_feature(enable = "avx2,bmi2,popcnt")]
    unsafe fn visit(&self, visits: &mut Visits, waiting: &Words, start: usize) {
        // SAFETY: the first of them waits, and behind the last there are four words.
        let hashes = unsafe { load(waiting, start) };
        // SAFETY: as above.
        unsafe { self.ask(_mm256_and_si256(hashes, _mm256_set1_epi64x(0xffff_ffff)), visits, start) };
    }

    /// Asks for the buckets that halves of hashes choose.
    #[inline]
    #[target_feature(enable = "avx2,bmi2,popcnt")]
    unsafe fn ask(&self, halves: __m256i, visits: &mut Visits, start: usize) {
        let buckets = self.split.buckets(halves);
        let starts = _mm256_add_epi64(_mm256_mul_epu32(buckets, self.bucket_bytes), self.start);
        // SAFETY: what is read is written here.
        unsafe {
            store(&mut visits.buckets, start, starts);
            for at in start..start + FOUR {
                prefetch(visits.buckets.get_unchecked(at).assume_init() as *const u8, 1);
            }
        }
    }

    /// Compares up to four keys with their buckets.
    #[inline]
    #[target_feature(enable = "avx2,bmi2,popcnt")]
    unsafe fn compare(
        &self,
        visits: &mut Visits,
        tags: &Words,
        start: usize,
        count: usize,
        who: impl Fn(usize) -> usize,
    ) {
        let mut one = |at: usize| {
            let who = who(at);
            // SAFETY: a key's words are there, its tag and its bucket are known, and a bucket has 64 bytes, aligned.
            unsafe {
                let bucket = visits.buckets.get_unchecked(at).assume_init() as *const u8;
                let tag = _mm256_set1_epi8(tags.get_unchecked(who).assume_init() as i8);
                let low = _mm256_or_si256(self.would_be(0, who), _mm256_and_si256(tag, self.tags));
                let low = _mm256_cmpeq_epi8(_mm256_load_si256(bucket.cast()), low);
                let high = _mm256_cmpeq_epi8(_mm256_load_si256(bucket.add(32).cast()), self.would_be(1, who));
                let (low, high) = (_mm256_movemask_epi8(low) as u32, _mm256_movemask_epi8(high) as u32);
                visits.same.get_unchecked_mut(at).write(u64::from(low) | u64::from(high) << 32);
            }
        };
        if start + FOUR <= count {
            (start..start + FOUR).for_each(one);
        } else {
            (start..count).for_each(&mut one);
        }
    }

    /// The bytes of a key where they would be in half a bucket.
    #[inline]
    #[target_feature(enable = "avx2,bmi2,popcnt")]
    unsafe fn would_be(&self, half: usize, who: usize) -> __m256i {
        // SAFETY: as many words as a key has are read.
        unsafe {
            let key = self.keys.add(who * WORDS);
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

    /// The first bytes of the values of four keys, null for those that aren't in their buckets, and which these are.
    #[inline]
    #[target_feature(enable = "avx2,bmi2,popcnt")]
    unsafe fn values(&self, visits: &Visits, start: usize) -> (__m256i, usize) {
        let mut places = _mm256_setzero_si256();
        // SAFETY: what a lane has that nobody wrote counts for nothing.
        let (same, buckets) = unsafe { (load(&visits.same, start), load(&visits.buckets, start)) };
        let line = &self.pattern.lines[0];
        for slot in 0..self.table.buckets.geometry.slots.min(MAX_SLOTS) {
            let bytes = _mm256_set1_epi64x(line.slots[slot] as i64);
            let here = _mm256_cmpeq_epi64(_mm256_and_si256(same, bytes), bytes);
            let place = _mm256_set1_epi64x(self.pattern.values[slot] as i64);
            places = _mm256_or_si256(places, _mm256_and_si256(here, place));
        }
        let missed = _mm256_cmpeq_epi64(places, _mm256_setzero_si256());
        let values = _mm256_andnot_si256(missed, _mm256_add_epi64(buckets, places));
        (values, _mm256_movemask_pd(_mm256_castsi256_pd(missed)) as usize)
    }
}

/// Writes the first `there` of four values to their places.
///
/// # Safety
/// `out` has so many places from `start` on.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn give(out: &mut [*const u8], start: usize, there: usize, values: __m256i) {
    // SAFETY: as promised to this function.
    unsafe {
        let to = out.as_mut_ptr().add(start);
        if there == FOUR {
            return _mm256_storeu_si256(to.cast(), values);
        }
        let mut each = [0u64; FOUR];
        _mm256_storeu_si256(each.as_mut_ptr().cast(), values);
        for (at, value) in each[..there].iter().enumerate() {
            to.add(at).write(*value as *const u8);
        }
    }
}

/// # Safety
/// There are 32 bytes.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn load_bytes(from: *const u32) -> __m256i {
    // SAFETY: as promised to this function.
    unsafe { _mm256_loadu_si256(from.cast()) }
}

/// # Safety
/// `start` is at most [`CHUNK`], and what is not written counts for nothing.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn load(words: &Words, start: usize) -> __m256i {
    // SAFETY: as promised to this function: four words are behind the last key's.
    unsafe { _mm256_loadu_si256(words.as_ptr().add(start).cast()) }
}

/// # Safety
/// `start` is at most [`CHUNK`].
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn store(words: &mut Words, start: usize, vector: __m256i) {
    // SAFETY: as promised to this function.
    unsafe { _mm256_storeu_si256(words.as_mut_ptr().add(start).cast(), vector) }
}

const _: () = assert!(CHUNK.is_multiple_of(FOUR) && CHUNK <= 256);
