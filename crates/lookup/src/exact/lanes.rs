//! Lookups of many keys, eight at once (AVX-512). The way of [`super::probe`], with as few instructions as possible.
//!
//! A key is hashed for itself; buckets and tags come out of vectors of eight hashes. Each key is then compared with all of its bucket at once
//! ([`Pattern`]): no loop over slots with the same tag, and no branch. What differs goes to memory as a mask for each key, and eight masks
//! together tell which keys have been found, and where.
#![allow(unsafe_code)]

use super::ExactTable;
use super::geometry::{LINE, MAX_SLOTS};
use super::pattern::{LinePattern, Pattern};
use super::probe::CHUNK;
use super::split::SplitLanes;
use crate::eight::{EIGHT, Eight, first_lanes, load};
use entries::prefetch;
use std::arch::x86_64::*;
use std::mem::MaybeUninit;

/// Vectors between asking for buckets and looking into them: measured best; more than the lines that a core can have under way.
const AHEAD: usize = 12;
/// The same for a table that stays in a near cache.
const AHEAD_NEAR: usize = 1;
/// Vectors of a chunk.
const BLOCKS: usize = CHUNK / EIGHT;

/// Eight keys on their way to their buckets.
#[repr(C, align(64))]
struct Visits<const LINES: usize> {
    /// Where each key's bucket is.
    buckets: Eight,
    /// For each line of the bucket: the bytes that are not what they would be if the key were there.
    differ: [Eight; LINES],
}

/// Keys that were not in their first bucket, one after the other; a vector can be put behind the last.
#[repr(C, align(64))]
struct Waiting {
    /// Positions in the chunk.
    who: [MaybeUninit<u64>; CHUNK + EIGHT],
    hashes: [MaybeUninit<u64>; CHUNK + EIGHT],
    len: usize,
    /// Vectors of keys whose second buckets have been found, and asked for but for those of the last.
    asked: usize,
}

/// Room for a chunk of keys.
#[repr(C, align(64))]
struct Room<const LINES: usize> {
    hashes: [Eight; BLOCKS],
    tags: [MaybeUninit<u8>; CHUNK],
    first: [Visits<LINES>; BLOCKS],
    second: [Visits<LINES>; BLOCKS],
    waiting: Waiting,
}

/// A lookup of a chunk of keys of `WORDS` words (0: as the table says), in buckets of `LINES` lines.
struct Lanes<'a, const WORDS: usize, const LINES: usize> {
    table: &'a ExactTable,
    pattern: &'a Pattern,
    lines: &'a [LinePattern; LINES],
    split: SplitLanes,
    start: __m512i,
    bucket_bytes: __m512i,
    keys: *const u64,
}

/// Whether the processor has what [`lookup`] needs.
#[inline(always)]
pub(super) fn available() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vbmi")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("popcnt")
}

/// Looks up at most [`CHUNK`] keys, one for each place of `out`.
///
/// # Safety
/// The processor has what [`available`] asks for, the table has buckets, and `keys` as many words as its keys take.
pub(super) unsafe fn lookup(table: &ExactTable, keys: &[u64], out: &mut [*const u8]) {
    let g = &table.buckets.geometry;
    // SAFETY: as promised to this function.
    unsafe {
        match (g.words, g.lines) {
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
    let lanes = Lanes::<WORDS, LINES>::new(table, keys);
    let mut room = MaybeUninit::<Room<LINES>>::uninit();
    // SAFETY: all but the numbers may be uninitialised; the rest is promised to this function.
    unsafe {
        let waiting = &raw mut (*room.as_mut_ptr()).waiting;
        (&raw mut (*waiting).len).write(0);
        (&raw mut (*waiting).asked).write(0);
        let room = room.assume_init_mut();
        lanes.first_buckets(room, out);
        lanes.second_buckets(room, out);
    }
}

impl<const LINES: usize> Visits<LINES> {
    /// Asks for the buckets. They are to be in memory for some time: to take a vector apart takes longer than to read eight words.
    ///
    /// # Safety
    /// They have been found.
    #[inline(always)]
    unsafe fn ask(&self) {
        for bucket in &self.buckets {
            // SAFETY: as promised.
            prefetch(unsafe { bucket.assume_init() } as *const u8, LINES);
        }
    }
}

impl Waiting {
    /// Puts those of eight keys on the list that are in `missed`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi,bmi2,popcnt")]
    unsafe fn put(&mut self, hashes: __m512i, start: usize, missed: __mmask8) {
        let who = _mm512_add_epi64(_mm512_set1_epi64(start as i64), _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0));
        // SAFETY: at most CHUNK keys are put here, and there is room for eight more.
        unsafe {
            let (to_who, to_hashes) = (self.who.as_mut_ptr().add(self.len), self.hashes.as_mut_ptr().add(self.len));
            _mm512_storeu_si512(to_who.cast(), _mm512_maskz_compress_epi64(missed, who));
            _mm512_storeu_si512(to_hashes.cast(), _mm512_maskz_compress_epi64(missed, hashes));
        }
        self.len += missed.count_ones() as usize;
    }
}

impl<'a, const WORDS: usize, const LINES: usize> Lanes<'a, WORDS, LINES> {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi,bmi2,popcnt")]
    fn new(table: &'a ExactTable, keys: &[u64]) -> Self {
        let g = &table.buckets.geometry;
        assert!(WORDS == 0 || WORDS == g.words, "words of a key");
        Lanes {
            table,
            pattern: &table.pattern,
            lines: table.pattern.lines.as_array().expect("as many as a bucket has"),
            split: SplitLanes::new(&table.split),
            start: _mm512_set1_epi64(table.buckets.start() as i64),
            bucket_bytes: _mm512_set1_epi64(g.bytes() as i64),
            keys: keys.as_ptr(),
        }
    }

    #[inline(always)]
    fn words(&self) -> usize {
        if WORDS == 0 { self.table.buckets.geometry.words } else { WORDS }
    }

    /// Looks for all keys in their first buckets. Those that aren't there wait, their second buckets being asked for but for the last.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi,bmi2,popcnt")]
    unsafe fn first_buckets(&self, room: &mut Room<LINES>, out: &mut [*const u8]) {
        let Room { hashes, tags, first, second, waiting } = room;
        let count = out.len().min(CHUNK);
        let blocks = count.div_ceil(EIGHT);
        let near = self.table.split.buckets() <= self.table.buckets.geometry.small;
        let ahead = if near { AHEAD_NEAR } else { AHEAD };
        // A block goes from stage to stage in later rounds: what has just been written word by word cannot be read as a vector at once.
        for round in 0..blocks + ahead + 3 {
            // SAFETY: blocks are less than BLOCKS, and each stage reads what the one before has written for the block.
            unsafe {
                if round < blocks {
                    self.hash(&mut hashes[round], round * EIGHT, count);
                }
                let block = round.wrapping_sub(1);
                if block < blocks {
                    self.begin(&hashes[block], &mut tags[block * EIGHT..][..EIGHT], &mut first[block]);
                }
                let block = round.wrapping_sub(2);
                if block < blocks {
                    first[block].ask();
                }
                let block = round.wrapping_sub(2 + ahead);
                if block < blocks {
                    let start = block * EIGHT;
                    self.compare(&mut first[block], tags, count - start, |at| start + at);
                }
                let block = round.wrapping_sub(3 + ahead);
                if block < blocks {
                    let start = block * EIGHT;
                    let there = first_lanes(count - start);
                    let (values, missed) = self.values(&first[block]);
                    _mm512_mask_storeu_epi64(out.as_mut_ptr().add(start).cast(), there, values);
                    waiting.put(load(&hashes[block]), start, missed & there);
                    if waiting.len >= (waiting.asked + 1) * EIGHT {
                        self.choose_second(waiting, &mut second[waiting.asked]);
                        if waiting.asked > 0 {
                            second[waiting.asked - 1].ask();
                        }
                        waiting.asked += 1;
                    }
                }
            }
        }
    }

    /// Looks for those who wait in their second buckets.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi,bmi2,popcnt")]
    unsafe fn second_buckets(&self, room: &mut Room<LINES>, out: &mut [*const u8]) {
        let Room { tags, second, waiting, .. } = room;
        let blocks = waiting.len.div_ceil(EIGHT);
        // SAFETY: blocks are less than BLOCKS, the list is read as far as it is long, and it has positions of places in `out`.
        unsafe {
            if waiting.asked > 0 {
                second[waiting.asked - 1].ask();
            }
            if waiting.asked < blocks {
                self.choose_second(waiting, &mut second[waiting.asked]);
                second[waiting.asked].ask();
            }
            for round in 0..blocks + 1 {
                if round < blocks {
                    let who = waiting.who.as_ptr().add(round * EIGHT);
                    let left = waiting.len - round * EIGHT;
                    self.compare(&mut second[round], tags, left, |at| who.add(at).read().assume_init() as usize);
                }
                let block = round.wrapping_sub(1);
                if block < blocks {
                    let mut values = [0u64; EIGHT];
                    _mm512_storeu_si512(values.as_mut_ptr().cast(), self.values(&second[block]).0);
                    for (who, value) in waiting.who[block * EIGHT..waiting.len].iter().zip(values) {
                        *out.get_unchecked_mut(who.assume_init() as usize) = value as *const u8;
                    }
                }
            }
        }
    }

    /// The hashes of eight keys from `start` on. Behind the last key, which is number `count - 1`, they are 0.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi,bmi2,popcnt")]
    unsafe fn hash(&self, hashes: &mut Eight, start: usize, count: usize) {
        let seeds = self.table.seeds;
        let hash = |at: usize| {
            // SAFETY: `at` is less than `count`, of which there are so many words.
            unsafe {
                let key = self.keys.add((start + at) * self.words());
                seeds.hash(self.words(), |word| key.add(word).read())
            }
        };
        if start + EIGHT <= count {
            for (at, to) in hashes.iter_mut().enumerate() {
                to.write(hash(at));
            }
        } else {
            for (at, to) in hashes.iter_mut().enumerate() {
                to.write(if start + at < count { hash(at) } else { 0 });
            }
        }
    }

    /// Finds the first buckets of eight keys.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi,bmi2,popcnt")]
    unsafe fn begin(&self, hashes: &Eight, tags: &mut [MaybeUninit<u8>], visits: &mut Visits<LINES>) {
        debug_assert_eq!(tags.len(), EIGHT);
        // SAFETY: hashes have been written; `tags` are eight bytes.
        unsafe {
            let hashes = load(hashes);
            let mixed = _mm512_xor_si512(_mm512_srli_epi64::<48>(hashes), _mm512_srli_epi64::<12>(hashes));
            let bytes = _mm_max_epu8(_mm512_cvtepi64_epi8(mixed), _mm_set1_epi8(1));
            _mm_storel_epi64(tags.as_mut_ptr().cast(), bytes);
            self.visit(_mm512_srli_epi64::<32>(hashes), visits);
        }
    }

    /// Finds the second buckets of the next eight keys that wait.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi,bmi2,popcnt")]
    unsafe fn choose_second(&self, waiting: &Waiting, visits: &mut Visits<LINES>) {
        // SAFETY: the first of them is on the list, behind which a whole vector has been put.
        unsafe {
            let hashes = _mm512_loadu_si512(waiting.hashes.as_ptr().add(waiting.asked * EIGHT).cast());
            self.visit(_mm512_and_si512(hashes, _mm512_set1_epi64(0xffff_ffff)), visits);
        }
    }

    /// Finds the buckets that halves of hashes choose.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi,bmi2,popcnt")]
    unsafe fn visit(&self, halves: __m512i, visits: &mut Visits<LINES>) {
        let buckets = self.split.buckets(halves);
        let starts = _mm512_add_epi64(_mm512_mul_epu32(buckets, self.bucket_bytes), self.start);
        // SAFETY: `buckets` is eight words, which are written here.
        unsafe {
            _mm512_store_si512(visits.buckets.as_mut_ptr().cast(), starts);
        }
    }

    /// Compares up to eight keys with their buckets.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi,bmi2,popcnt")]
    unsafe fn compare(
        &self,
        visits: &mut Visits<LINES>,
        tags: &[MaybeUninit<u8>; CHUNK],
        count: usize,
        who: impl Fn(usize) -> usize,
    ) {
        let mut one = |at: usize| {
            let who = who(at);
            // SAFETY: a key's words are there, and so are all lines of its bucket.
            unsafe {
                let key = self.key(who);
                let bucket = visits.buckets[at].assume_init() as *const u8;
                for line in 0..LINES {
                    let spread = _mm512_load_si512(self.lines[line].spread.as_ptr().cast());
                    let mut would_be = _mm512_permutexvar_epi8(spread, key);
                    if line == 0 {
                        let tag = tags.get_unchecked(who).assume_init() as i8;
                        would_be = _mm512_mask_set1_epi8(would_be, self.pattern.tags, tag);
                    }
                    let is = _mm512_load_si512(bucket.add(LINE * line).cast());
                    visits.differ[line][at].write(_mm512_cmpneq_epi8_mask(is, would_be));
                }
            }
        };
        if count >= EIGHT {
            (0..EIGHT).for_each(one);
        } else {
            (0..count).for_each(&mut one);
        }
    }

    /// The words of a key, repeated or followed by zeros.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi,bmi2,popcnt")]
    unsafe fn key(&self, at: usize) -> __m512i {
        // SAFETY: as promised to this function; masked to the words of the key.
        unsafe {
            let key = self.keys.add(at * self.words());
            if WORDS == 1 {
                _mm512_set1_epi64(key.read() as i64)
            } else {
                _mm512_maskz_loadu_epi64(first_lanes(self.words()), key.cast())
            }
        }
    }

    /// The first bytes of the values of eight keys, null for those that aren't in their buckets, and which these are.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi,bmi2,popcnt")]
    unsafe fn values(&self, visits: &Visits<LINES>) -> (__m512i, __mmask8) {
        let mut places = _mm512_setzero_si512();
        for slot in 0..self.table.buckets.geometry.slots.min(MAX_SLOTS) {
            let mut here = !0;
            for line in 0..LINES {
                let bytes = _mm512_set1_epi64(self.lines[line].slots[slot] as i64);
                // SAFETY: what a lane has that nobody wrote counts for nothing.
                here = _mm512_mask_testn_epi64_mask(here, unsafe { load(&visits.differ[line]) }, bytes);
            }
            places = _mm512_mask_mov_epi64(places, here, _mm512_set1_epi64(self.pattern.values[slot] as i64));
        }
        let found = _mm512_test_epi64_mask(places, places);
        // SAFETY: buckets have been written.
        (_mm512_maskz_add_epi64(found, unsafe { load(&visits.buckets) }, places), !found)
    }
}
