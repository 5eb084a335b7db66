//! Comparison of sixteen tags at once.
#![allow(unsafe_code)]

/// Tags of a window.
pub(super) const WINDOW_TAGS: usize = 16;

/// Compares the [`WINDOW_TAGS`] tags from `at` on. Returns the mask of those equal to `tag` and of
/// those equal to 0, the first in the lowest bit. Beyond the end of `tags` all tags count as free.
#[inline(always)]
pub(super) fn match_window(tags: &[u8], at: usize, tag: u8) -> (u32, u32) {
    let Some(tags) = tags.get(at..).and_then(|tags| tags.first_chunk::<WINDOW_TAGS>()) else {
        return (0, u32::MAX);
    };
    match_tags(tags, tag)
}

/// Returns the mask of tags equal to `tag` and of those equal to 0, the first in the lowest bit.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) fn match_tags(tags: &[u8; WINDOW_TAGS], tag: u8) -> (u32, u32) {
    use std::arch::x86_64::{_mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_set1_epi8, _mm_setzero_si128};
    // SAFETY: SSE2 is part of x86-64, and there are sixteen bytes.
    unsafe {
        let tags = _mm_loadu_si128(tags.as_ptr().cast());
        let same = _mm_movemask_epi8(_mm_cmpeq_epi8(tags, _mm_set1_epi8(tag as i8)));
        let free = _mm_movemask_epi8(_mm_cmpeq_epi8(tags, _mm_setzero_si128()));
        (same as u32, free as u32)
    }
}

/// Returns the mask of tags equal to `tag` and of those equal to 0, the first in the lowest bit.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub(super) fn match_tags(tags: &[u8; WINDOW_TAGS], tag: u8) -> (u32, u32) {
    let mask = |wanted: u8| (0..WINDOW_TAGS).fold(0, |mask, index| mask | u32::from(tags[index] == wanted) << index);
    (mask(tag), mask(0))
}
