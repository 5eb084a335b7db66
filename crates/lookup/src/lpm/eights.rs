//! What [`super::lines`] does, eight keys at once (AVX-512): for exact keys of one word, and addresses of at most 32 bits.
//!
//! A block of eight keys goes from step to step in later rounds, so that what a step asks for is there when the next one reads it, and what was written
//! word by word is in memory when it is read as a vector. Only the comparison with a line's prefixes is each key's own, as they fill a vector.
#![allow(unsafe_code)]

use super::address::Address;
use super::directory::{self, Directory, KeyPlace};
use super::lines::{gate, search};
use super::matcher::{Avx512, Matcher, Scalar};
use super::pool::{Line, Ref};
use super::set::{Format, Formats, HEAD, Kind};
use super::table::Table;
use super::view::{CHUNK, NEAR, View, prefetch};
use super::window::{WINDOW, window};
use crate::eight::{EIGHT, Eight, all, first_lanes, lanes, load, pairs, store};
use smallvec::SmallVec;
use std::arch::x86_64::*;
use std::mem::MaybeUninit;

/// Vectors that are on their way at once, at least.
const BLOCKS: usize = 32;
const _: () = assert!(AHEAD + STEPS <= BLOCKS);
/// Rounds between asking for lines and looking into them: more lines than a core can have under way.
const AHEAD: usize = 12;
/// Steps of a block, each in a round of its own.
const STEPS: usize = 6;
/// The same if the lines are in a near cache.
const AHEAD_NEAR: usize = 1;

/// Eight keys on their way.
#[repr(C, align(64))]
struct Block {
    keys: Eight,
    /// At the top of 32 bits.
    addresses: Eight,
    hashes: Eight,
    /// Where the tags begin that may name the key's line.
    tags: Eight,
    /// The line that is named.
    lines: Eight,
    heads: Eight,
    /// Where the bytes are that say how many bits of each prefix do not count.
    shifts: Eight,
    /// Which prefixes the address has.
    has: Eight,
    /// The keys that have a line.
    there: u8,
}

/// A lookup in a table whose directory this is.
struct Lanes<'a> {
    view: &'a View<'a>,
    formats: &'a Formats,
    directory: &'a Directory,
    tags: *const u8,
    lines: *const u8,
    /// Bits of a word in front of those of an address.
    unused: u32,
    /// By format number.
    shifts: __m512i,
    cells: __m512i,
}

/// Whether the processor has what [`first_lines`] needs.
#[inline(always)]
pub(super) fn available() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512cd")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
}

/// Whether [`first_lines`] is made for the table's keys.
#[inline(always)]
pub(super) fn suits<A: Address>(table: &Table<A>) -> bool {
    A::WORDS == 1 && table.lpm_bits <= 32 && table.exact_words == 1
}

/// As [`super::lines::first_lines`], for at most [`CHUNK`] keys of two words: exact key and address of so many bits. All of `out` is written.
///
/// # Safety
/// The processor has what [`available`] asks for; lines of `directory`, in which keys are, are of these formats; there are two words for each place of `out`.
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,bmi1,bmi2,lzcnt,popcnt")]
pub(super) unsafe fn first_lines(
    view: &View<'_>,
    formats: &Formats,
    (directory, bits): (&Directory, u32),
    keys: &[u64],
    out: &mut [*const u8],
    mut go_on: impl FnMut(usize, Ref, u64),
) {
    let count = out.len().min(CHUNK).min(keys.len() / 2);
    let lanes = Lanes::new(view, formats, directory, bits);
    let mut room = MaybeUninit::<[Block; BLOCKS]>::uninit();
    // SAFETY: blocks are words that may be uninitialised, and one number that is written before it is read.
    let room = unsafe { &mut *room.as_mut_ptr().cast::<[MaybeUninit<Block>; BLOCKS]>() };
    let block = |number: usize| number % BLOCKS;
    let blocks = count.div_ceil(EIGHT);
    let ahead = if directory.slots() * size_of::<Line>() <= NEAR { AHEAD_NEAR } else { AHEAD };
    let mut late = Late::new();
    for round in 0..blocks + ahead + STEPS - 1 {
        let at = |behind: usize| Some(round.wrapping_sub(behind)).filter(|number| *number < blocks);
        // SAFETY: steps read what the steps before have written of a block, and a block has answered before another one takes its place.
        unsafe {
            if let Some(number) = at(0) {
                lanes.begin(
                    &mut *room[block(number)].as_mut_ptr(),
                    keys.as_ptr().add(number * EIGHT * 2),
                    count - number * EIGHT,
                );
            }
            if let Some(number) = at(1) {
                ask(&(*room[block(number)].as_ptr()).tags);
            }
            if let Some(number) = at(2) {
                lanes.name(&mut *room[block(number)].as_mut_ptr(), first_lanes(count - number * EIGHT));
            }
            if let Some(number) = at(3) {
                ask(&(*room[block(number)].as_ptr()).lines);
            }
            if let Some(number) = at(3 + ahead) {
                lanes.read(&mut *room[block(number)].as_mut_ptr(), number * EIGHT, &mut late);
            }
            if let Some(number) = at(4 + ahead) {
                lanes.compare(&mut *room[block(number)].as_mut_ptr());
            }
            if let Some(number) = at(5 + ahead) {
                let first = number * EIGHT;
                lanes.answer(&*room[block(number)].as_ptr(), (first, count - first), out, &mut go_on);
            }
        }
    }
    for index in late {
        if let (Some(key), Some(out)) = (keys[2 * index..].first_chunk(), out.get_mut(index)) {
            lanes.look_further(key, out, |to, rest| go_on(index, to, rest));
        }
    }
}

/// Positions of keys that are in other lines than those that were named.
type Late = SmallVec<[usize; 32]>;

/// Asks for lines. They are to be in memory for some time: to take a vector apart takes longer than to read eight words.
///
/// # Safety
/// All are written.
#[inline(always)]
unsafe fn ask(places: &Eight) {
    for place in places {
        // SAFETY: as promised.
        prefetch(unsafe { place.assume_init() } as *const u8);
    }
}

impl<'a> Lanes<'a> {
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn new(view: &'a View<'a>, formats: &'a Formats, directory: &'a Directory, bits: u32) -> Lanes<'a> {
        let each = |of: fn(&Format) -> u8| {
            let offsets: [u64; EIGHT] = std::array::from_fn(|number| u64::from(of(&formats.formats[number])));
            // SAFETY: eight words.
            unsafe { _mm512_loadu_si512(offsets.as_ptr().cast()) }
        };
        Lanes {
            view,
            formats,
            directory,
            tags: directory.tags.as_ptr(),
            lines: directory.lines.as_ptr().cast(),
            unused: 64 - bits,
            shifts: each(|format| format.shifts),
            cells: each(|format| format.cells),
        }
    }

    /// Takes keys, as many as there are, and finds their tags. Those that are not there are 0.
    ///
    /// # Safety
    /// There are two words for each.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn begin(&self, block: &mut Block, keys: *const u64, count: usize) {
        // SAFETY: as promised.
        let (keys, addresses) = unsafe { pairs(keys, count) };
        let addresses = _mm512_srli_epi64::<32>(_mm512_sllv_epi64(addresses, all(u64::from(self.unused))));
        let hashes = self.directory.hash.eight(keys);
        let homes = _mm512_srli_epi64::<32>(_mm512_mul_epu32(
            _mm512_srli_epi64::<32>(hashes),
            all(self.directory.slots() as u64),
        ));
        store(&mut block.keys, keys);
        store(&mut block.addresses, addresses);
        store(&mut block.hashes, hashes);
        store(&mut block.tags, _mm512_add_epi64(homes, all(self.tags as u64)));
    }

    /// The lines that the tags name: those of these keys, if there are any, nearly always.
    ///
    /// # Safety
    /// The block has begun.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512vl")]
    unsafe fn name(&self, block: &mut Block, keys: __mmask8) {
        // SAFETY: written when the block began. A home is one of all slots, and `WINDOW` tags are behind the last.
        let (same, free) = unsafe {
            let hashes = _mm512_max_epu8(load(&block.hashes), _mm512_set1_epi8(1));
            let half = |first: usize| {
                let at = |lane: usize| _mm_loadu_si128(block.tags[first + lane].assume_init() as *const __m128i);
                let tags = _mm512_inserti32x4::<1>(_mm512_castsi128_si512(at(0)), at(1));
                let tags = _mm512_inserti32x4::<3>(_mm512_inserti32x4::<2>(tags, at(2)), at(3));
                let lanes = _mm512_set_epi64(3, 3, 2, 2, 1, 1, 0, 0);
                let wanted = _mm512_permutexvar_epi64(_mm512_add_epi64(lanes, all(first as u64)), hashes);
                let wanted = _mm512_shuffle_epi8(wanted, _mm512_setzero_si512());
                (_mm512_cmpeq_epi8_mask(tags, wanted), _mm512_testn_epi8_mask(tags, tags))
            };
            let ((same, free), (same_behind, free_behind)) = (half(0), half(4));
            (spread(same, same_behind), spread(free, free_behind))
        };
        let named = _mm512_test_epi64_mask(same, same);
        block.there = keys & (named | _mm512_testn_epi64_mask(free, free));
        // The first with the right tag. If there is none, any line will do: its key differs.
        let place = _mm512_maskz_mov_epi64(named, lowest(same));
        // SAFETY: written when the block began.
        let home = _mm512_sub_epi64(unsafe { load(&block.tags) }, all(self.tags as u64));
        let slot = _mm512_add_epi64(home, place);
        // Behind the last is the first: the difference of one in front is a very large number.
        let slot = _mm512_min_epu64(slot, _mm512_sub_epi64(slot, all(self.directory.slots() as u64)));
        let line = _mm512_add_epi64(_mm512_slli_epi64::<6>(slot), all(self.lines as u64));
        // Nobody waits for the lines of those that have none.
        store(&mut block.lines, _mm512_mask_mov_epi64(all(self.lines as u64), block.there, line));
    }

    /// Reads the lines' heads. Keys that are in other lines than those that were named come later.
    ///
    /// # Safety
    /// Lines have been named.
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn read(&self, block: &mut Block, first: usize, late: &mut Late) {
        // SAFETY: these are lines of the directory.
        let read = |offset: usize| unsafe { words(&block.lines, offset) };
        let heads = read(HEAD);
        let narrow = self.directory.place == KeyPlace::Narrow;
        let found = if narrow { _mm512_srli_epi64::<32>(heads) } else { read(HEAD - 8) };
        // SAFETY: written when the block began.
        let wrong = _mm512_cmpneq_epi64_mask(found, unsafe { load(&block.keys) }) & block.there;
        let format = _mm512_and_si512(_mm512_srli_epi64::<8>(heads), all(7));
        // SAFETY: named.
        let lines = unsafe { load(&block.lines) };
        store(&mut block.heads, heads);
        store(&mut block.shifts, _mm512_add_epi64(lines, _mm512_permutexvar_epi64(format, self.shifts)));
        if wrong != 0 {
            block.there &= !wrong;
            for lane in lanes(wrong) {
                // SAFETY: written when the block began.
                let hash = unsafe { block.hashes[lane].assume_init() };
                self.ask_for_others(hash);
                late.push(first + lane);
            }
        }
    }

    /// Asks for the line that is named second by the tags, if there is one.
    #[cold]
    fn ask_for_others(&self, hash: u64) {
        let home = directory::home(hash, self.directory.slots());
        let (same, _) = window(&self.directory.tags, home, directory::tag(hash));
        let second = home + ((same & same.wrapping_sub(1)).trailing_zeros() as usize & (2 * WINDOW - 1));
        prefetch(self.lines.wrapping_add(second * size_of::<Line>()));
    }

    /// Looks for one key.
    #[cold]
    fn look_further(&self, &[key, address]: &[u64; 2], out: &mut *const u8, go_on: impl FnOnce(Ref, u64)) {
        let Some(slot) = self.directory.find(&[key]) else { return };
        let line = self.lines.wrapping_add(slot * size_of::<Line>());
        let address = address << self.unused;
        // SAFETY: a line of the directory, whose formats these are, for addresses of at most 32 bits; a scalar matcher needs nothing.
        let (found, child, len) = unsafe { search::<u64, Scalar, true>(self.view, self.formats, line, address) };
        *out = found;
        if !child.is_null() {
            go_on(child, address.skip(len));
        }
    }

    /// Compares each address with the prefixes of its line.
    ///
    /// # Safety
    /// Heads have been read.
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn compare(&self, block: &mut Block) {
        for lane in 0..EIGHT {
            // SAFETY: lines of the directory; shifts end 16 bytes before a line does (`Format::new`).
            unsafe {
                let line = block.lines[lane].assume_init() as *const u8;
                let shifts = block.shifts[lane].assume_init() as *const u8;
                let has = Avx512::narrow(line, shifts, block.addresses[lane].assume_init() as u32, 0);
                block.has[lane].write(u64::from(has));
            }
        }
    }

    /// Writes what was found for the keys of a block, which begins with number `first`, and has so many; `go_on` gets those that have more behind a gate.
    ///
    /// # Safety
    /// Addresses have been compared; `out` has as many places.
    #[inline]
    #[target_feature(enable = "avx512f,avx512cd")]
    unsafe fn answer(
        &self,
        block: &Block,
        (first, count): (usize, usize),
        out: &mut [*const u8],
        go_on: &mut impl FnMut(usize, Ref, u64),
    ) {
        // SAFETY: all has been written.
        let (heads, lines, has) = unsafe { (load(&block.heads), load(&block.lines), load(&block.has)) };
        let taken = _mm512_sllv_epi64(all(1), _mm512_and_si512(heads, all(15)));
        let has = _mm512_and_si512(has, _mm512_sub_epi64(taken, all(1)));
        let found = _mm512_mask_test_epi64_mask(block.there, has, has);
        let format = _mm512_and_si512(_mm512_srli_epi64::<8>(heads), all(7));
        let cells = _mm512_add_epi64(lines, _mm512_permutexvar_epi64(format, self.cells));
        let place = lowest(has);
        let mut cell = _mm512_add_epi64(cells, _mm512_mul_epu32(place, all(self.formats.cell as u64)));
        let apart = _mm512_mask_cmpeq_epi64_mask(found, format, all(APART));
        if apart != 0 {
            // SAFETY: the line has the block's number there.
            let blocks = unsafe { half_words(apart, cells) };
            let apart_cell = _mm512_add_epi64(_mm512_slli_epi64::<6>(blocks), all(self.view.pool as u64));
            cell = _mm512_mask_add_epi64(cell, apart, apart_cell, _mm512_slli_epi64::<3>(place));
            let mut places = [MaybeUninit::uninit(); EIGHT];
            store(&mut places, cell);
            for lane in lanes(apart) {
                // SAFETY: just written.
                prefetch(unsafe { places[lane].assume_init() } as *const u8);
            }
        }
        if self.view.numbered {
            // SAFETY: cells have numbers.
            let numbers = unsafe { half_words(found, cell) };
            cell =
                _mm512_add_epi64(_mm512_mul_epu32(numbers, all(self.view.stride as u64)), all(self.view.values as u64));
        }
        // SAFETY: as many places.
        unsafe {
            let out = out.as_mut_ptr().add(first).cast();
            _mm512_mask_storeu_epi64(out, first_lanes(count), _mm512_maskz_mov_epi64(found, cell));
        }
        let gated = _mm512_mask_cmpeq_epi64_mask(block.there, format, all(GATED));
        if gated != 0 {
            // SAFETY: lines with gates.
            unsafe { self.gates(block, gated, first, go_on) };
        }
    }

    /// Those of these keys that pass their lines' gates go on.
    ///
    /// # Safety
    /// They are in lines that have one.
    #[inline(always)]
    unsafe fn gates(&self, block: &Block, which: u8, first: usize, go_on: &mut impl FnMut(usize, Ref, u64)) {
        let format = &self.formats.formats[GATED as usize];
        for lane in lanes(which) {
            // SAFETY: the gate lies within the line; all has been written.
            unsafe {
                let at = (block.lines[lane].assume_init() as *const u8).add(format.gate as usize);
                let address = block.addresses[lane].assume_init() << 32;
                let (child, len) = gate(at, format.width, block.heads[lane].assume_init(), address);
                if !child.is_null() {
                    go_on(first + lane, child, address.skip(len));
                }
            }
        }
    }
}

/// Format numbers of prefixes of 32 bits.
const APART: u64 = Formats::number(Kind::Apart, 0) as u64;
const GATED: u64 = Formats::number(Kind::Gated, 0) as u64;

/// The places of the lowest ones of words that are not 0.
#[inline]
#[target_feature(enable = "avx512f,avx512cd")]
fn lowest(words: __m512i) -> __m512i {
    let lowest = _mm512_and_si512(words, _mm512_sub_epi64(_mm512_setzero_si512(), words));
    _mm512_sub_epi64(all(63), _mm512_lzcnt_epi64(lowest))
}

/// Sixteen bits each.
#[inline]
#[target_feature(enable = "avx512f")]
fn spread(low: u64, high: u64) -> __m512i {
    _mm512_cvtepu16_epi64(_mm_set_epi64x(high as i64, low as i64))
}

/// The words at eight places, so many bytes further.
///
/// # Safety
/// There is a word at each.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn words(places: &Eight, offset: usize) -> __m512i {
    let mut words = _mm512_setzero_si512();
    for (lane, place) in places.iter().enumerate() {
        // SAFETY: as promised.
        let word = unsafe { (place.assume_init() as *const u8).add(offset).cast::<i64>().read_unaligned() };
        words = _mm512_mask_set1_epi64(words, 1 << lane, word);
    }
    words
}

/// The 32 bits at each of these places that is in the mask.
///
/// # Safety
/// There are eight bytes at each.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn half_words(mask: __mmask8, places: __m512i) -> __m512i {
    // SAFETY: as promised.
    let words = unsafe { _mm512_mask_i64gather_epi64::<1>(_mm512_setzero_si512(), mask, places, std::ptr::null()) };
    _mm512_and_si512(words, all(0xffff_ffff))
}

const _: () = assert!(WINDOW == 16);
