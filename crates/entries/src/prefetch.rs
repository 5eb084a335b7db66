//! Prefetch of memory that is about to be read.

/// Size of a cache line in bytes.
pub const CACHE_LINE: usize = 64;

/// Prefetches `lines` cache lines from `start`. This is a hint: it does not wait, and has no effect
/// on invalid addresses.
#[inline(always)]
#[allow(unsafe_code)] // The instruction has a pointer, and no safe form.
pub fn prefetch(start: *const u8, lines: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: prefetch is a hint without effect on invalid addresses.
        let line = |line: usize| unsafe { _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(line * CACHE_LINE).cast()) };
        line(0);
        (1..lines).for_each(line);
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (start, lines);
}
