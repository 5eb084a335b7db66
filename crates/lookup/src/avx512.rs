//! Helpers for vectors of eight words (AVX-512).
#![allow(unsafe_code)]

use std::arch::x86_64::*;
use std::mem::MaybeUninit;

/// 64-bit words of a vector.
pub(super) const AVX512_LANES: usize = 8;

/// Eight words that are written before they are read.
pub(super) type Words8 = [MaybeUninit<u64>; AVX512_LANES];

/// Returns the mask of the first `count` lanes; all eight if `count` is larger.
#[inline(always)]
pub(super) fn first_lanes(count: usize) -> __mmask8 {
    if count >= AVX512_LANES { !0 } else { (1 << count) - 1 }
}

/// Iterates over the lanes of a mask in ascending order.
#[inline(always)]
pub(super) fn iterate_lanes(mut mask: __mmask8) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lane = (mask != 0).then(|| mask.trailing_zeros() as usize);
        mask &= mask.wrapping_sub(1);
        lane
    })
}

/// Broadcasts a word to all lanes.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn splat(word: u64) -> __m512i {
    _mm512_set1_epi64(word as i64)
}

/// Loads words into a vector.
///
/// # Safety
/// All words have been written, or the caller ignores the lanes of unwritten words.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn load_words(words: &Words8) -> __m512i {
    // SAFETY: eight words.
    unsafe { _mm512_loadu_si512(words.as_ptr().cast()) }
}

/// Stores a vector to words.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn store_words(words: &mut Words8, vector: __m512i) {
    // SAFETY: eight words.
    unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast(), vector) }
}

/// Loads the first and the second words of up to eight keys of two words each; missing lanes are 0.
///
/// # Safety
/// `keys` points to `count` keys, or to eight if `count` is larger.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn load_key_pairs(keys: *const u64, count: usize) -> (__m512i, __m512i) {
    // SAFETY: masked to the existing words.
    let (one, two) = unsafe {
        let rest = first_lanes((2 * count).saturating_sub(AVX512_LANES));
        (
            _mm512_maskz_loadu_epi64(first_lanes(2 * count), keys.cast()),
            _mm512_maskz_loadu_epi64(rest, keys.wrapping_add(AVX512_LANES).cast()),
        )
    };
    let first = _mm512_permutex2var_epi64(one, _mm512_set_epi64(14, 12, 10, 8, 6, 4, 2, 0), two);
    let second = _mm512_permutex2var_epi64(one, _mm512_set_epi64(15, 13, 11, 9, 7, 5, 3, 1), two);
    (first, second)
}
