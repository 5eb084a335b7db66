//! AVX-512 steps for eight keys at once.
#![allow(unsafe_code)]

use super::super::address::AddressBits;
use super::super::view::prefetch_line;
use super::block::{ARRAY, LINE, TREE};
use super::lookup::{
    BlockVisits, CHUNK_KEYS, LevelKernel, LevelResults, LevelView, VISIT_BITS_SHIFT, VISIT_LINE_SHIFT,
};
use super::{KIND_SHIFT, LEVEL_BITS, PAGE_KIND};
use crate::avx512::{AVX512_LANES, first_lanes, load_key_pairs};
use std::arch::x86_64::*;
use std::mem::MaybeUninit;

/// 64-bit words of a key.
const KEY_WORDS: usize = 2;

type KeyChunkWords = [MaybeUninit<u64>; CHUNK_KEYS];

/// Kernel for AVX-512 F, BW and VL.
pub(super) struct Avx512Kernel;

impl LevelKernel for Avx512Kernel {
    /// Reads the entries of eight keys at once. Addresses are prefetched one vector ahead of their
    /// use.
    #[inline(always)]
    unsafe fn first_two_steps<A: AddressBits>(
        view: &LevelView,
        keys: &[u64],
        count: usize,
        results: &mut LevelResults,
    ) {
        assert!(
            A::WORDS == KEY_WORDS && keys.len() >= count * KEY_WORDS && count <= CHUNK_KEYS,
            "{count} keys of two words"
        );
        let mut tops: KeyChunkWords = [const { MaybeUninit::uninit() }; CHUNK_KEYS];
        let mut addresses: KeyChunkWords = [const { MaybeUninit::uninit() }; CHUNK_KEYS];
        for first in (0..count).step_by(AVX512_LANES) {
            // SAFETY: guaranteed by the caller, and asserted.
            unsafe {
                let top = leading_words(keys.as_ptr().add(first * KEY_WORDS), count - first, view.key_bits);
                _mm512_storeu_si512(tops.as_mut_ptr().add(first).cast(), top);
                _mm512_storeu_si512(addresses.as_mut_ptr().add(first).cast(), entry_addresses(view, top));
                prefetch_previous(&addresses, first);
            }
        }
        prefetch_previous(&addresses, count.next_multiple_of(AVX512_LANES));
        for first in (0..count).step_by(AVX512_LANES) {
            // SAFETY: as above; the addresses were written above and point to entries; lanes after
            // the last key are masked.
            unsafe {
                let key_lanes = first_lanes(count - first);
                let address = _mm512_loadu_si512(addresses.as_ptr().add(first).cast());
                let zero = _mm256_setzero_si256();
                let entries = _mm512_mask_i64gather_epi32::<1>(zero, key_lanes, address, std::ptr::null());
                _mm256_mask_storeu_epi32(results.numbers.as_mut_ptr().add(first).cast(), key_lanes, entries);
                let next_addresses =
                    append_visits(view, results, first, entries, _mm512_loadu_si512(tops.as_ptr().add(first).cast()));
                _mm512_storeu_si512(addresses.as_mut_ptr().add(first).cast(), next_addresses);
                prefetch_previous(&addresses, first);
            }
        }
        prefetch_previous(&addresses, count.next_multiple_of(AVX512_LANES));
    }

    #[inline(always)]
    unsafe fn count_bounds_16(places: *const u8, value: u16) -> usize {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let places = _mm256_loadu_si256(places.cast());
            _mm256_cmplt_epu16_mask(places, _mm256_set1_epi16(value as i16)).count_ones() as usize
        }
    }

    #[inline(always)]
    unsafe fn count_bounds_32(places: *const u8, value: u16) -> usize {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let places = _mm512_loadu_si512(places.cast());
            _mm512_cmplt_epu16_mask(places, _mm512_set1_epi16(value as i16)).count_ones() as usize
        }
    }
}

/// Returns the first 64 bits of the addresses of up to eight keys; missing lanes are 0.
///
/// # Safety
/// `left` keys of two words follow; `bits` of each are the address, 65 to 128.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn leading_words(keys: *const u64, left: usize, bits: u32) -> __m512i {
    // SAFETY: guaranteed by the caller.
    let (low, high) = unsafe { load_key_pairs(keys, left) };
    // A shift by 64 gives 0.
    let count = |bits: u32| _mm_cvtsi32_si128(bits as i32);
    _mm512_or_si512(_mm512_sll_epi64(high, count(128 - bits)), _mm512_srl_epi64(low, count(bits - 64)))
}

/// Returns the addresses of the entries of eight keys: in a page, or in the first level if it has
/// no page.
///
/// # Safety
/// `view` belongs to a table.
#[inline]
#[target_feature(enable = "avx512f,avx512vl")]
unsafe fn entry_addresses(view: &LevelView, tops: __m512i) -> __m512i {
    let all = |word: usize| _mm512_set1_epi64(word as i64);
    let index = _mm512_srli_epi64::<{ 64 - LEVEL_BITS }>(tops);
    // SAFETY: an entry exists for each value of `STEP` bits.
    let entries = unsafe { _mm512_i64gather_epi32::<4>(index, view.first.cast()) };
    let paged = _mm256_cmpeq_epi32_mask(
        _mm256_srli_epi32::<{ KIND_SHIFT as i32 }>(entries),
        _mm256_set1_epi32(PAGE_KIND as i32),
    );
    let page = _mm512_and_si512(_mm512_cvtepu32_epi64(entries), all((1 << KIND_SHIFT) - 1));
    let rest = _mm512_and_si512(_mm512_srli_epi64::<{ 64 - 2 * LEVEL_BITS }>(tops), all((1 << LEVEL_BITS) - 1));
    let in_page = _mm512_or_si512(_mm512_slli_epi64::<LEVEL_BITS>(page), rest);
    let base = _mm512_mask_mov_epi64(all(view.first.addr()), paged, all(view.pages.addr()));
    let index = _mm512_mask_mov_epi64(index, paged, in_page);
    _mm512_add_epi64(base, _mm512_slli_epi64::<2>(index))
}

/// Appends those of eight keys, from index `first` on, that are at a block to the list of its kind.
/// Returns the addresses that all keys will read.
///
/// # Safety
/// Each list has fewer than [`CHUNK_KEYS`] keys and space for eight more.
#[inline]
#[target_feature(enable = "avx512f,avx512vl,popcnt")]
unsafe fn append_visits(
    view: &LevelView,
    results: &mut LevelResults,
    first: usize,
    entries: __m256i,
    tops: __m512i,
) -> __m512i {
    let splat = |word: usize| _mm512_set1_epi64(word as i64);
    let kinds = _mm256_srli_epi32::<{ KIND_SHIFT as i32 }>(entries);
    let lanes_of_kind = |kind: u32| _mm256_cmpeq_epi32_mask(kinds, _mm256_set1_epi32(kind as i32));
    let line = _mm512_and_si512(_mm512_cvtepu32_epi64(entries), splat((1 << KIND_SHIFT) - 1));
    let bits = _mm512_and_si512(_mm512_srli_epi64::<{ 64 - 3 * LEVEL_BITS }>(tops), splat((1 << LEVEL_BITS) - 1));
    let key_indices = _mm512_add_epi64(splat(first), _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0));
    let visits =
        _mm512_or_si512(_mm512_slli_epi64::<VISIT_LINE_SHIFT>(line), _mm512_slli_epi64::<VISIT_BITS_SHIFT>(bits));
    let visits = _mm512_or_si512(visits, key_indices);
    let array_lanes = lanes_of_kind(ARRAY);
    // SAFETY: guaranteed by the caller.
    unsafe {
        append_masked(&mut results.lines, lanes_of_kind(LINE), visits);
        append_masked(&mut results.trees, lanes_of_kind(TREE), visits);
        append_masked(&mut results.arrays, array_lanes, visits);
    }
    // Value numbers have no line; they use the pool's first, which is in cache.
    let block_lanes = _mm256_cmpneq_epi32_mask(kinds, _mm256_setzero_si256());
    let offset = _mm512_maskz_slli_epi64::<6>(block_lanes, line);
    let offset = _mm512_mask_add_epi64(offset, array_lanes, offset, _mm512_slli_epi64::<1>(bits));
    _mm512_add_epi64(splat(view.pool.addr()), offset)
}

/// Appends the visits in a mask to a list.
///
/// # Safety
/// The list has at most [`CHUNK_KEYS`] visits.
#[inline]
#[target_feature(enable = "avx512f,popcnt")]
unsafe fn append_masked(to: &mut BlockVisits, mask: __mmask8, visits: __m512i) {
    // SAFETY: lists have eight visits after CHUNK_KEYS.
    unsafe {
        _mm512_storeu_si512(to.visits.as_mut_ptr().add(to.len).cast(), _mm512_maskz_compress_epi64(mask, visits));
    }
    to.len += mask.count_ones() as usize;
}

/// Prefetches the eight addresses before index `end`, if any. These belong to the previous vector
/// and are in memory, because extracting them from the current vector would take longer.
#[inline(always)]
fn prefetch_previous(places: &KeyChunkWords, end: usize) {
    for place in &places[end.saturating_sub(AVX512_LANES)..end] {
        // SAFETY: written before.
        prefetch_line(unsafe { place.assume_init() } as *const u8);
    }
}
