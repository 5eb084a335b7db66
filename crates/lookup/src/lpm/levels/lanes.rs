//! Steps of eight keys at once, for processors with AVX-512.
#![allow(unsafe_code)]

use super::super::address::Address;
use super::super::view::prefetch;
use super::block::{ARRAY, LINE, TREE};
use super::lookup::{CHUNK, Known, Machine, VISIT_BITS, VISIT_LINE, View, Visits};
use super::{KIND, PAGE, STEP};
use crate::eight::{EIGHT, first_lanes, pairs};
use std::arch::x86_64::*;
use std::mem::MaybeUninit;

/// Words of a key.
const WORDS: usize = 2;

type Words = [MaybeUninit<u64>; CHUNK];

/// AVX-512 F, BW and VL.
pub(super) struct Avx512;

impl Machine for Avx512 {
    #[inline(always)]
    unsafe fn begin<A: Address>(view: &View, keys: &[u64], count: usize, known: &mut Known) {
        assert!(A::WORDS == WORDS && keys.len() >= count * WORDS && count <= CHUNK, "{count} keys of two words");
        let mut tops: Words = [const { MaybeUninit::uninit() }; CHUNK];
        let mut places: Words = [const { MaybeUninit::uninit() }; CHUNK];
        for first in (0..count).step_by(EIGHT) {
            // SAFETY: as promised, and as asserted.
            unsafe {
                let top = tops_of(keys.as_ptr().add(first * WORDS), count - first, view.bits);
                _mm512_storeu_si512(tops.as_mut_ptr().add(first).cast(), top);
                _mm512_storeu_si512(places.as_mut_ptr().add(first).cast(), places_of(view, top));
                ask_before(&places, first);
            }
        }
        ask_before(&places, count.next_multiple_of(EIGHT));
        for first in (0..count).step_by(EIGHT) {
            // SAFETY: as above; written above, places those of entries; what is behind the last key is left out.
            unsafe {
                let there = first_lanes(count - first);
                let place = _mm512_loadu_si512(places.as_ptr().add(first).cast());
                let none = _mm256_setzero_si256();
                let entries = _mm512_mask_i64gather_epi32::<1>(none, there, place, std::ptr::null());
                _mm256_mask_storeu_epi32(known.numbers.as_mut_ptr().add(first).cast(), there, entries);
                let at = visit(view, known, first, entries, _mm512_loadu_si512(tops.as_ptr().add(first).cast()));
                _mm512_storeu_si512(places.as_mut_ptr().add(first).cast(), at);
                ask_before(&places, first);
            }
        }
        ask_before(&places, count.next_multiple_of(EIGHT));
    }

    #[inline(always)]
    unsafe fn of_sixteen(places: *const u8, value: u16) -> usize {
        // SAFETY: as promised.
        unsafe {
            let places = _mm256_loadu_si256(places.cast());
            _mm256_cmplt_epu16_mask(places, _mm256_set1_epi16(value as i16)).count_ones() as usize
        }
    }

    #[inline(always)]
    unsafe fn of_all(places: *const u8, value: u16) -> usize {
        // SAFETY: as promised.
        unsafe {
            let places = _mm512_loadu_si512(places.cast());
            _mm512_cmplt_epu16_mask(places, _mm512_set1_epi16(value as i16)).count_ones() as usize
        }
    }
}

/// The first 64 bits of the addresses of up to eight keys; 0 behind the last.
///
/// # Safety
/// There are `left` keys of two words, of which so many bits are the address: 65 to 128.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn tops_of(keys: *const u64, left: usize, bits: u32) -> __m512i {
    // SAFETY: as promised.
    let (low, high) = unsafe { pairs(keys, left) };
    // A shift by 64 gives 0.
    let count = |bits: u32| _mm_cvtsi32_si128(bits as i32);
    _mm512_or_si512(_mm512_sll_epi64(high, count(128 - bits)), _mm512_srl_epi64(low, count(bits - 64)))
}

/// Where the entries of eight addresses are: in a page, or if there is none, the first.
///
/// # Safety
/// `view` is that of a table.
#[inline]
#[target_feature(enable = "avx512f,avx512vl")]
unsafe fn places_of(view: &View, tops: __m512i) -> __m512i {
    let all = |word: usize| _mm512_set1_epi64(word as i64);
    let index = _mm512_srli_epi64::<{ 64 - STEP }>(tops);
    // SAFETY: there is an entry for each value of so many bits.
    let entries = unsafe { _mm512_i64gather_epi32::<4>(index, view.first.cast()) };
    let paged = _mm256_cmpeq_epi32_mask(_mm256_srli_epi32::<{ KIND as i32 }>(entries), _mm256_set1_epi32(PAGE as i32));
    let page = _mm512_and_si512(_mm512_cvtepu32_epi64(entries), all((1 << KIND) - 1));
    let rest = _mm512_and_si512(_mm512_srli_epi64::<{ 64 - 2 * STEP }>(tops), all((1 << STEP) - 1));
    let in_page = _mm512_or_si512(_mm512_slli_epi64::<STEP>(page), rest);
    let base = _mm512_mask_mov_epi64(all(view.first.addr()), paged, all(view.pages.addr()));
    let index = _mm512_mask_mov_epi64(index, paged, in_page);
    _mm512_add_epi64(base, _mm512_slli_epi64::<2>(index))
}

/// Puts those of eight keys, from number `first` on, that are at a block on its kind's list, and gives what all will read.
///
/// # Safety
/// Lists have fewer than [`CHUNK`] keys each, and room for eight more.
#[inline]
#[target_feature(enable = "avx512f,avx512vl,popcnt")]
unsafe fn visit(view: &View, known: &mut Known, first: usize, entries: __m256i, tops: __m512i) -> __m512i {
    let all = |word: usize| _mm512_set1_epi64(word as i64);
    let kinds = _mm256_srli_epi32::<{ KIND as i32 }>(entries);
    let of_kind = |kind: u32| _mm256_cmpeq_epi32_mask(kinds, _mm256_set1_epi32(kind as i32));
    let line = _mm512_and_si512(_mm512_cvtepu32_epi64(entries), all((1 << KIND) - 1));
    let bits = _mm512_and_si512(_mm512_srli_epi64::<{ 64 - 3 * STEP }>(tops), all((1 << STEP) - 1));
    let who = _mm512_add_epi64(all(first), _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0));
    let visits = _mm512_or_si512(_mm512_slli_epi64::<VISIT_LINE>(line), _mm512_slli_epi64::<VISIT_BITS>(bits));
    let visits = _mm512_or_si512(visits, who);
    let arrays = of_kind(ARRAY);
    // SAFETY: as promised.
    unsafe {
        put(&mut known.lines, of_kind(LINE), visits);
        put(&mut known.trees, of_kind(TREE), visits);
        put(&mut known.arrays, arrays, visits);
    }
    // Numbers have no line: for them it is the pool's first, which is near.
    let blocks = _mm256_cmpneq_epi32_mask(kinds, _mm256_setzero_si256());
    let at = _mm512_maskz_slli_epi64::<6>(blocks, line);
    let at = _mm512_mask_add_epi64(at, arrays, at, _mm512_slli_epi64::<1>(bits));
    _mm512_add_epi64(all(view.pool.addr()), at)
}

/// Adds the visits of a mask to a list.
///
/// # Safety
/// The list has at most [`CHUNK`] visits.
#[inline]
#[target_feature(enable = "avx512f,popcnt")]
unsafe fn put(to: &mut Visits, mask: __mmask8, visits: __m512i) {
    // SAFETY: lists end eight visits behind CHUNK.
    unsafe {
        _mm512_storeu_si512(to.list.as_mut_ptr().add(to.len).cast(), _mm512_maskz_compress_epi64(mask, visits));
    }
    to.len += mask.count_ones() as usize;
}

/// Asks for the eight places before number `end`, if there are any: those of the vector before, which are in memory by now. To take a vector apart would take longer.
#[inline(always)]
fn ask_before(places: &Words, end: usize) {
    for place in &places[end.saturating_sub(EIGHT)..end] {
        // SAFETY: written before.
        prefetch(unsafe { place.assume_init() } as *const u8);
    }
}
