//! AVX-512 version of [`super::directory_lookup`] for eight keys at once, with exact keys of one
//! word and addresses of at most 32 bits.
//!
//! Each step processes a block of eight keys in a later round, so that prefetched lines have
//! arrived and words written one by one can be loaded as a vector. Only the comparison with a
//! line's prefixes is done key by key, because they fill a vector.
#![allow(unsafe_code)]

use super::address::AddressBits;
use super::directory::{self, ExactKeyDirectory, LineKeyFormat};
use super::directory_lookup::{read_child, search_line};
use super::matcher::{Avx512Matcher, PrefixMatcher, ScalarMatcher};
use super::pool::{BlockRef, LineBytes};
use super::prefix_line::{HEADER_OFFSET, PrefixLineKind, PrefixLineLayout, PrefixLineLayouts};
use super::table::TypedLpmTable;
use super::view::{CACHED_BYTES, CHUNK_KEYS, LpmView, prefetch_line};
use super::window::{WINDOW_TAGS, match_window};
use crate::avx512::{AVX512_LANES, Words8, first_lanes, iterate_lanes, load_key_pairs, load_words, splat, store_words};
use smallvec::SmallVec;
use std::arch::x86_64::*;
use std::mem::MaybeUninit;

/// Minimum number of blocks in flight.
const RING_BLOCKS: usize = 32;
const _: () = assert!(PREFETCH_DISTANCE + BLOCK_STEPS <= RING_BLOCKS);
/// Rounds between prefetching lines and reading them; it exceeds the number of cache lines that a
/// core can have in flight.
const PREFETCH_DISTANCE: usize = 12;
/// Steps of a block, each in its own round.
const BLOCK_STEPS: usize = 6;
/// Rounds between prefetching and reading if the lines are in cache.
const PREFETCH_DISTANCE_SMALL: usize = 1;

/// State of eight keys.
#[repr(C, align(64))]
struct KeyBlock8 {
    keys: Words8,
    /// Left-aligned in 32 bits.
    addresses: Words8,
    hashes: Words8,
    /// Address of the first tag for each key.
    tags: Words8,
    /// Address of the line with a matching tag.
    lines: Words8,
    headers: Words8,
    /// Address of the line's bytes with the unused bits of each prefix.
    shifts: Words8,
    /// Mask of the prefixes that match the address.
    prefix_matches: Words8,
    /// Keys that have a line.
    present_lanes: u8,
}

/// Lookup in a table with this directory.
struct DirectoryAvx512<'a> {
    view: &'a LpmView<'a>,
    line_layouts: &'a PrefixLineLayouts,
    directory: &'a ExactKeyDirectory,
    tags: *const u8,
    lines: *const u8,
    /// Unused bits of a word before those of an address.
    unused: u32,
    /// By layout number.
    shifts: __m512i,
    cells: __m512i,
}

/// Returns whether the processor has the instructions that [`search_first_lines`] needs.
#[inline(always)]
pub(super) fn is_available() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512cd")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
}

/// Returns whether [`search_first_lines`] supports the table's keys.
#[inline(always)]
pub(super) fn supports_table<A: AddressBits>(table: &TypedLpmTable<A>) -> bool {
    A::WORDS == 1 && table.lpm_bits <= 32 && table.exact_words == 1
}

/// Searches the lines of at most [`CHUNK_KEYS`] keys as
/// [`super::directory_lookup::search_first_lines`] does. A key has two words: an exact key and an
/// address of `bits` bits. Writes all of `out`.
///
/// # Safety
/// [`is_available`] is true; lines of `directory` contain their keys and have these layouts; there
/// are two words for each element of `out`.
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,bmi1,bmi2,lzcnt,popcnt")]
pub(super) unsafe fn search_first_lines(
    view: &LpmView<'_>,
    layouts: &PrefixLineLayouts,
    (directory, bits): (&ExactKeyDirectory, u32),
    keys: &[u64],
    out: &mut [*const u8],
    mut go_on: impl FnMut(usize, BlockRef, u64),
) {
    let count = out.len().min(CHUNK_KEYS).min(keys.len() / 2);
    let lanes = DirectoryAvx512::new(view, layouts, directory, bits);
    let mut ring = MaybeUninit::<[KeyBlock8; RING_BLOCKS]>::uninit();
    // SAFETY: blocks are words that may be uninitialised, and a mask that is written before it is
    // read.
    let ring = unsafe { &mut *ring.as_mut_ptr().cast::<[MaybeUninit<KeyBlock8>; RING_BLOCKS]>() };
    let ring_index = |number: usize| number % RING_BLOCKS;
    let blocks = count.div_ceil(AVX512_LANES);
    let prefetch_distance = if directory.slot_count() * size_of::<LineBytes>() <= CACHED_BYTES {
        PREFETCH_DISTANCE_SMALL
    } else {
        PREFETCH_DISTANCE
    };
    let mut collisions = TagCollisions::new();
    for round in 0..blocks + prefetch_distance + BLOCK_STEPS - 1 {
        // Number of the block that is a step's turn in this round, `behind` rounds after its first
        // step.
        let block_at = |behind: usize| Some(round.wrapping_sub(behind)).filter(|number| *number < blocks);
        // SAFETY: each step reads data that earlier steps have written for the block, and a block
        // is finished before another reuses its memory.
        unsafe {
            if let Some(number) = block_at(0) {
                lanes.hash_keys(
                    &mut *ring[ring_index(number)].as_mut_ptr(),
                    keys.as_ptr().add(number * AVX512_LANES * 2),
                    count - number * AVX512_LANES,
                );
            }
            if let Some(number) = block_at(1) {
                prefetch_lines(&(*ring[ring_index(number)].as_ptr()).tags);
            }
            if let Some(number) = block_at(2) {
                lanes.choose_lines(
                    &mut *ring[ring_index(number)].as_mut_ptr(),
                    first_lanes(count - number * AVX512_LANES),
                );
            }
            if let Some(number) = block_at(3) {
                prefetch_lines(&(*ring[ring_index(number)].as_ptr()).lines);
            }
            if let Some(number) = block_at(3 + prefetch_distance) {
                lanes.read_headers(&mut *ring[ring_index(number)].as_mut_ptr(), number * AVX512_LANES, &mut collisions);
            }
            if let Some(number) = block_at(4 + prefetch_distance) {
                lanes.compare_prefixes(&mut *ring[ring_index(number)].as_mut_ptr());
            }
            if let Some(number) = block_at(5 + prefetch_distance) {
                let first = number * AVX512_LANES;
                lanes.store_results(&*ring[ring_index(number)].as_ptr(), (first, count - first), out, &mut go_on);
            }
        }
    }
    for index in collisions {
        if let (Some(key), Some(out)) = (keys[2 * index..].first_chunk(), out.get_mut(index)) {
            lanes.lookup_collision(key, out, |to, rest| go_on(index, to, rest));
        }
    }
}

/// Indices of keys with a matching tag but another key in the chosen line.
type TagCollisions = SmallVec<[usize; 32]>;

/// Prefetches lines. Reads the addresses from memory, because extracting them from a vector takes
/// longer. They should have been stored some time before.
///
/// # Safety
/// All have been written.
#[inline(always)]
unsafe fn prefetch_lines(places: &Words8) {
    for place in places {
        // SAFETY: guaranteed by the caller.
        prefetch_line(unsafe { place.assume_init() } as *const u8);
    }
}

impl<'a> DirectoryAvx512<'a> {
    /// Loads the constants of a table: `bits` is the number of address bits, and the offsets of all
    /// line layouts become vectors that are indexed by a layout's number.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn new(
        view: &'a LpmView<'a>,
        layouts: &'a PrefixLineLayouts,
        directory: &'a ExactKeyDirectory,
        bits: u32,
    ) -> DirectoryAvx512<'a> {
        let offsets_by_layout = |field: fn(&PrefixLineLayout) -> u8| {
            let offsets: [u64; AVX512_LANES] = std::array::from_fn(|number| u64::from(field(&layouts.layouts[number])));
            // SAFETY: eight words.
            unsafe { _mm512_loadu_si512(offsets.as_ptr().cast()) }
        };
        DirectoryAvx512 {
            view,
            line_layouts: layouts,
            directory,
            tags: directory.tags.as_ptr(),
            lines: directory.lines.as_ptr().cast(),
            unused: 64 - bits,
            shifts: offsets_by_layout(|layout| layout.shifts_offset),
            cells: offsets_by_layout(|layout| layout.cells_offset),
        }
    }

    /// Loads up to `count` keys, hashes them and stores the addresses of their tags. Missing keys
    /// are 0.
    ///
    /// # Safety
    /// There are two words for each key.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn hash_keys(&self, block: &mut KeyBlock8, keys: *const u64, count: usize) {
        // SAFETY: guaranteed by the caller.
        let (keys, addresses) = unsafe { load_key_pairs(keys, count) };
        let addresses = _mm512_srli_epi64::<32>(_mm512_sllv_epi64(addresses, splat(u64::from(self.unused))));
        let hashes = self.directory.hash.hash_eight(keys);
        let homes = _mm512_srli_epi64::<32>(_mm512_mul_epu32(
            _mm512_srli_epi64::<32>(hashes),
            splat(self.directory.slot_count() as u64),
        ));
        store_words(&mut block.keys, keys);
        store_words(&mut block.addresses, addresses);
        store_words(&mut block.hashes, hashes);
        store_words(&mut block.tags, _mm512_add_epi64(homes, splat(self.tags as u64)));
    }

    /// Chooses lines by their tags: compares the tags from each key's home on with the tag of its
    /// hash. If a key has a line, it is nearly always the chosen one. `keys` are the lanes with a
    /// key.
    ///
    /// # Safety
    /// The keys have been hashed.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512vl")]
    unsafe fn choose_lines(&self, block: &mut KeyBlock8, keys: __mmask8) {
        // SAFETY: written when the keys were hashed. A home is a valid slot, and `WINDOW_TAGS` tags
        // follow the last slot.
        let (matching, unused) = unsafe {
            let hashes = _mm512_max_epu8(load_words(&block.hashes), _mm512_set1_epi8(1));
            let half = |first: usize| {
                let tags_of_lane =
                    |lane: usize| _mm_loadu_si128(block.tags[first + lane].assume_init() as *const __m128i);
                let tags = _mm512_inserti32x4::<1>(_mm512_castsi128_si512(tags_of_lane(0)), tags_of_lane(1));
                let tags = _mm512_inserti32x4::<3>(_mm512_inserti32x4::<2>(tags, tags_of_lane(2)), tags_of_lane(3));
                let lanes = _mm512_set_epi64(3, 3, 2, 2, 1, 1, 0, 0);
                let expected = _mm512_permutexvar_epi64(_mm512_add_epi64(lanes, splat(first as u64)), hashes);
                let expected = _mm512_shuffle_epi8(expected, _mm512_setzero_si512());
                (_mm512_cmpeq_epi8_mask(tags, expected), _mm512_testn_epi8_mask(tags, tags))
            };
            let ((matching, unused), (matching_high, unused_high)) = (half(0), half(4));
            (widen_to_words(matching, matching_high), widen_to_words(unused, unused_high))
        };
        let has_match = _mm512_test_epi64_mask(matching, matching);
        block.present_lanes = keys & (has_match | _mm512_testn_epi64_mask(unused, unused));
        // The first slot with a matching tag. Without one, any line will do, because its key
        // differs.
        let distance = _mm512_maskz_mov_epi64(has_match, lowest_bit_index(matching));
        // SAFETY: written when the keys were hashed.
        let home = _mm512_sub_epi64(unsafe { load_words(&block.tags) }, splat(self.tags as u64));
        let slot = _mm512_add_epi64(home, distance);
        // Slots wrap around: for a slot before the end the subtraction yields a very large number.
        let slot = _mm512_min_epu64(slot, _mm512_sub_epi64(slot, splat(self.directory.slot_count() as u64)));
        let line = _mm512_add_epi64(_mm512_slli_epi64::<6>(slot), splat(self.lines as u64));
        // Keys without a line use the first line, to avoid cache misses.
        store_words(&mut block.lines, _mm512_mask_mov_epi64(splat(self.lines as u64), block.present_lanes, line));
    }

    /// Reads the lines' headers. Keys that are not in the chosen line are appended to `collisions`,
    /// with another line prefetched. `first` is the index of the block's first key.
    ///
    /// # Safety
    /// Lines have been chosen.
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn read_headers(&self, block: &mut KeyBlock8, first: usize, collisions: &mut TagCollisions) {
        // SAFETY: these are lines of the directory.
        let read = |offset: usize| unsafe { gather_words(&block.lines, offset) };
        let headers = read(HEADER_OFFSET);
        let is_narrow = self.directory.key_format == LineKeyFormat::Narrow;
        let stored_keys = if is_narrow { _mm512_srli_epi64::<32>(headers) } else { read(HEADER_OFFSET - 8) };
        // SAFETY: written when the keys were hashed.
        let mismatched =
            _mm512_cmpneq_epi64_mask(stored_keys, unsafe { load_words(&block.keys) }) & block.present_lanes;
        let layout = _mm512_and_si512(_mm512_srli_epi64::<8>(headers), splat(7));
        // SAFETY: written when the lines were chosen.
        let lines = unsafe { load_words(&block.lines) };
        store_words(&mut block.headers, headers);
        store_words(&mut block.shifts, _mm512_add_epi64(lines, _mm512_permutexvar_epi64(layout, self.shifts)));
        if mismatched != 0 {
            block.present_lanes &= !mismatched;
            for lane in iterate_lanes(mismatched) {
                // SAFETY: written when the keys were hashed.
                let hash = unsafe { block.hashes[lane].assume_init() };
                self.prefetch_second_match(hash);
                collisions.push(first + lane);
            }
        }
    }

    /// Prefetches the line of the second matching tag, if there is one.
    #[cold]
    fn prefetch_second_match(&self, hash: u64) {
        let home = directory::home_slot(hash, self.directory.slot_count());
        let (same, _) = match_window(&self.directory.tags, home, directory::directory_tag(hash));
        let second = home + ((same & same.wrapping_sub(1)).trailing_zeros() as usize & (2 * WINDOW_TAGS - 1));
        prefetch_line(self.lines.wrapping_add(second * size_of::<LineBytes>()));
    }

    /// Looks up a single key.
    #[cold]
    fn lookup_collision(&self, &[key, address]: &[u64; 2], out: &mut *const u8, go_on: impl FnOnce(BlockRef, u64)) {
        let Some(slot) = self.directory.find_line(&[key]) else { return };
        let line = self.lines.wrapping_add(slot * size_of::<LineBytes>());
        let address = address << self.unused;
        // SAFETY: a line of the directory with these layouts, for addresses of at most 32 bits; a
        // scalar matcher has no requirements.
        let (found, child, len) =
            unsafe { search_line::<u64, ScalarMatcher, true>(self.view, self.line_layouts, line, address) };
        *out = found;
        if !child.is_null() {
            go_on(child, address.skip_bits(len));
        }
    }

    /// Compares each address with the prefixes of its line.
    ///
    /// # Safety
    /// Headers have been read.
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn compare_prefixes(&self, block: &mut KeyBlock8) {
        for lane in 0..AVX512_LANES {
            // SAFETY: lines of the directory; shifts end at least 16 bytes before the line
            // (`PrefixLineLayout::new`).
            unsafe {
                let line = block.lines[lane].assume_init() as *const u8;
                let shifts = block.shifts[lane].assume_init() as *const u8;
                let has = Avx512Matcher::match_32(line, shifts, block.addresses[lane].assume_init() as u32, 0);
                block.prefix_matches[lane].write(u64::from(has));
            }
        }
    }

    /// Writes the results of a block. `first` is the index of its first key and `count` the number
    /// of its keys. Calls `go_on` for keys that match a compressed child.
    ///
    /// # Safety
    /// Addresses have been compared; `out` has an element per key.
    #[inline]
    #[target_feature(enable = "avx512f,avx512cd")]
    unsafe fn store_results(
        &self,
        block: &KeyBlock8,
        (first, count): (usize, usize),
        out: &mut [*const u8],
        go_on: &mut impl FnMut(usize, BlockRef, u64),
    ) {
        // SAFETY: all have been written.
        let (heads, lines, matches) =
            unsafe { (load_words(&block.headers), load_words(&block.lines), load_words(&block.prefix_matches)) };
        // Bits of prefixes that the line does not have are ignored: it has as many as its header
        // says.
        let past_last = _mm512_sllv_epi64(splat(1), _mm512_and_si512(heads, splat(15)));
        let matches = _mm512_and_si512(matches, _mm512_sub_epi64(past_last, splat(1)));
        let found = _mm512_mask_test_epi64_mask(block.present_lanes, matches, matches);
        let layout = _mm512_and_si512(_mm512_srli_epi64::<8>(heads), splat(7));
        let cells = _mm512_add_epi64(lines, _mm512_permutexvar_epi64(layout, self.cells));
        let index = lowest_bit_index(matches);
        let mut cell = _mm512_add_epi64(cells, _mm512_mul_epu32(index, splat(self.line_layouts.cell_bytes as u64)));
        let out_of_line = _mm512_mask_cmpeq_epi64_mask(found, layout, splat(OUT_OF_LINE_LAYOUT));
        if out_of_line != 0 {
            // SAFETY: the line stores the block number there.
            let value_blocks = unsafe { gather_half_words(out_of_line, cells) };
            let apart_cell = _mm512_add_epi64(_mm512_slli_epi64::<6>(value_blocks), splat(self.view.pool as u64));
            cell = _mm512_mask_add_epi64(cell, out_of_line, apart_cell, _mm512_slli_epi64::<3>(index));
            let mut cell_addresses = [MaybeUninit::uninit(); AVX512_LANES];
            store_words(&mut cell_addresses, cell);
            for lane in iterate_lanes(out_of_line) {
                // SAFETY: just written.
                prefetch_line(unsafe { cell_addresses[lane].assume_init() } as *const u8);
            }
        }
        if self.view.uses_value_numbers {
            // SAFETY: cells hold value numbers.
            let numbers = unsafe { gather_half_words(found, cell) };
            cell = _mm512_add_epi64(
                _mm512_mul_epu32(numbers, splat(self.view.value_stride as u64)),
                splat(self.view.values as u64),
            );
        }
        // SAFETY: `out` has an element per key.
        unsafe {
            let out = out.as_mut_ptr().add(first).cast();
            _mm512_mask_storeu_epi64(out, first_lanes(count), _mm512_maskz_mov_epi64(found, cell));
        }
        let with_child = _mm512_mask_cmpeq_epi64_mask(block.present_lanes, layout, splat(WITH_CHILD_LAYOUT));
        if with_child != 0 {
            // SAFETY: lines with a compressed child.
            unsafe { self.follow_children(block, with_child, first, go_on) };
        }
    }

    /// Calls `go_on` for those of these keys that match their line's compressed child.
    ///
    /// # Safety
    /// Their lines have one.
    #[inline(always)]
    unsafe fn follow_children(
        &self,
        block: &KeyBlock8,
        lanes: u8,
        first: usize,
        go_on: &mut impl FnMut(usize, BlockRef, u64),
    ) {
        let layout = &self.line_layouts.layouts[WITH_CHILD_LAYOUT as usize];
        for lane in iterate_lanes(lanes) {
            // SAFETY: the child lies within the line; all have been written.
            unsafe {
                let child_ptr = (block.lines[lane].assume_init() as *const u8).add(layout.child_offset as usize);
                let address = block.addresses[lane].assume_init() << 32;
                let (child, len) =
                    read_child(child_ptr, layout.prefix_bytes, block.headers[lane].assume_init(), address);
                if !child.is_null() {
                    go_on(first + lane, child, address.skip_bits(len));
                }
            }
        }
    }
}

/// Layout numbers of lines with 32-bit prefixes.
const OUT_OF_LINE_LAYOUT: u64 = PrefixLineLayouts::layout_number(PrefixLineKind::OutOfLine, 0) as u64;
const WITH_CHILD_LAYOUT: u64 = PrefixLineLayouts::layout_number(PrefixLineKind::WithChild, 0) as u64;

/// Returns the index of the lowest set bit of each nonzero word.
#[inline]
#[target_feature(enable = "avx512f,avx512cd")]
fn lowest_bit_index(words: __m512i) -> __m512i {
    let lowest = _mm512_and_si512(words, _mm512_sub_epi64(_mm512_setzero_si512(), words));
    _mm512_sub_epi64(splat(63), _mm512_lzcnt_epi64(lowest))
}

/// Widens sixteen-bit elements to words.
#[inline]
#[target_feature(enable = "avx512f")]
fn widen_to_words(low: u64, high: u64) -> __m512i {
    _mm512_cvtepu16_epi64(_mm_set_epi64x(high as i64, low as i64))
}

/// Loads the words at eight addresses plus `offset` bytes.
///
/// # Safety
/// All may be read.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn gather_words(places: &Words8, offset: usize) -> __m512i {
    let mut words = _mm512_setzero_si512();
    for (lane, place) in places.iter().enumerate() {
        // SAFETY: guaranteed by the caller.
        let word = unsafe { (place.assume_init() as *const u8).add(offset).cast::<i64>().read_unaligned() };
        words = _mm512_mask_set1_epi64(words, 1 << lane, word);
    }
    words
}

/// Loads the 32 bits at each address in the mask.
///
/// # Safety
/// Eight bytes may be read at each.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn gather_half_words(mask: __mmask8, places: __m512i) -> __m512i {
    // SAFETY: guaranteed by the caller.
    let words = unsafe { _mm512_mask_i64gather_epi64::<1>(_mm512_setzero_si512(), mask, places, std::ptr::null()) };
    _mm512_and_si512(words, splat(0xffff_ffff))
}

const _: () = assert!(WINDOW_TAGS == 16);
