//! Prefetching of slice elements: [`prefetch_element`], [`prefetch_range`], [`prefetch_lines`].

use entries::{CACHE_LINE as LINE, prefetch};

/// Prefetches an element of a slice. Never blocks; has no effect beyond the end of the slice.
#[inline(always)]
pub fn prefetch_element<T>(of: &[T], at: usize) {
    prefetch_range(of, at, 1);
}

/// Prefetches `count` elements of one cache line each, without a loop. The slice usually contains
/// all.
#[inline(always)]
pub fn prefetch_lines<T>(of: &[T], at: usize, count: usize) {
    const { assert!(size_of::<T>() == LINE) };
    let start = of.as_ptr().wrapping_add(at);
    match count {
        _ if of.len().saturating_sub(at) < count => prefetch_range(of, at, count),
        4 => prefetch(start.cast(), 4),
        5 => prefetch(start.cast(), 5),
        _ => prefetch(start.cast(), count),
    }
}

/// Prefetches up to `count` elements, bounded by the slice's end. Assumes that elements of whole
/// cache lines are aligned to a line.
#[inline(always)]
pub fn prefetch_range<T>(of: &[T], at: usize, count: usize) {
    if at < of.len() {
        let start = of.as_ptr().wrapping_add(at);
        let first = if size_of::<T>().is_multiple_of(LINE) { 0 } else { start.addr() % LINE };
        prefetch(start.cast(), (first + (size_of::<T>() * count.min(of.len() - at)).max(1)).div_ceil(LINE));
    }
}
