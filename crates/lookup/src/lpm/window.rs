//! [`window`]: sixteen tags at once.
#![allow(unsafe_code)]

/// Tags of a window.
pub(super) const WINDOW: usize = 16;

/// Which of the [`WINDOW`] tags from `at` on are `tag`, and which are 0, the first in the lowest bit. Behind the end of `tags` the
/// answer is "free".
#[inline(always)]
pub(super) fn window(tags: &[u8], at: usize, tag: u8) -> (u32, u32) {
    let Some(tags) = tags.get(at..).and_then(|tags| tags.first_chunk::<WINDOW>()) else {
        return (0, u32::MAX);
    };
    masks(tags, tag)
}

/// Which of these tags are `tag`, and which are 0, the first in the lowest bit.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) fn masks(tags: &[u8; WINDOW], tag: u8) -> (u32, u32) {
    use std::arch::x86_64::{_mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_set1_epi8, _mm_setzero_si128};
    // SAFETY: SSE2 belongs to x86-64, and sixteen bytes are there.
    unsafe {
        let tags = _mm_loadu_si128(tags.as_ptr().cast());
        let same = _mm_movemask_epi8(_mm_cmpeq_epi8(tags, _mm_set1_epi8(tag as i8)));
        let free = _mm_movemask_epi8(_mm_cmpeq_epi8(tags, _mm_setzero_si128()));
        (same as u32, free as u32)
    }
}

/// Which of these tags are `tag`, and which are 0, the first in the lowest bit.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub(super) fn masks(tags: &[u8; WINDOW], tag: u8) -> (u32, u32) {
    let mask = |wanted: u8| (0..WINDOW).fold(0, |mask, index| mask | u32::from(tags[index] == wanted) << index);
    (mask(tag), mask(0))
}
