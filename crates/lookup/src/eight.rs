//! Eight words at once (AVX-512): what lookups that take eight keys together have in common.
#![allow(unsafe_code)]

use std::arch::x86_64::*;
use std::mem::MaybeUninit;

/// Words of a vector.
pub(super) const EIGHT: usize = 8;

/// Words that are written before they are read.
pub(super) type Eight = [MaybeUninit<u64>; EIGHT];

/// The first `count` lanes of eight; all if there are more.
#[inline(always)]
pub(super) fn first_lanes(count: usize) -> __mmask8 {
    if count >= EIGHT { !0 } else { (1 << count) - 1 }
}

/// These lanes, one after the other.
#[inline(always)]
pub(super) fn lanes(mut mask: __mmask8) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lane = (mask != 0).then(|| mask.trailing_zeros() as usize);
        mask &= mask.wrapping_sub(1);
        lane
    })
}

/// A word in all lanes.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn all(word: u64) -> __m512i {
    _mm512_set1_epi64(word as i64)
}

/// Words as a vector.
///
/// # Safety
/// They have been written, or lanes of those that were not count for nothing.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn load(words: &Eight) -> __m512i {
    // SAFETY: eight words.
    unsafe { _mm512_loadu_si512(words.as_ptr().cast()) }
}

/// A vector as words.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn store(words: &mut Eight, vector: __m512i) {
    // SAFETY: eight words.
    unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast(), vector) }
}

/// The first and the second words of up to eight keys of two words each; 0 behind the last.
///
/// # Safety
/// There are `count` keys, or more than eight.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn pairs(keys: *const u64, count: usize) -> (__m512i, __m512i) {
    // SAFETY: masked to the words that are there.
    let (one, two) = unsafe {
        let rest = first_lanes((2 * count).saturating_sub(EIGHT));
        (
            _mm512_maskz_loadu_epi64(first_lanes(2 * count), keys.cast()),
            _mm512_maskz_loadu_epi64(rest, keys.wrapping_add(EIGHT).cast()),
        )
    };
    let first = _mm512_permutex2var_epi64(one, _mm512_set_epi64(14, 12, 10, 8, 6, 4, 2, 0), two);
    let second = _mm512_permutex2var_epi64(one, _mm512_set_epi64(15, 13, 11, 9, 7, 5, 3, 1), two);
    (first, second)
}
