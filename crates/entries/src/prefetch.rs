//! [`prefetch`]: asks the processor for memory that is going to be read.

/// Bytes of a cache line.
pub const CACHE_LINE: usize = 64;

/// Asks for cache lines, one or a few, from where `start` lies on. A hint: it waits for nothing, and
/// does nothing where no memory is.
#[inline(always)]
#[allow(unsafe_code)] // The instruction has a pointer, and no safe form.
pub fn prefetch(start: *const u8, lines: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a hint; it does nothing if the address is no good.
        let line = |line: usize| unsafe { _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(line * CACHE_LINE).cast()) };
        line(0);
        (1..lines).for_each(line);
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (start, lines);
}
