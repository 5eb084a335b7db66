//! [`soon`]: asks for memory that is going to be read, so that it is near when that happens.

use entries::{CACHE_LINE as LINE, prefetch};

/// An element of a slice will be read or written soon. A hint, which waits for nothing; without effect beyond the end.
#[inline(always)]
pub fn soon<T>(of: &[T], at: usize) {
    all_soon(of, at, 1);
}

/// The same of a few elements that are a line each, and behind which the slice goes on as a rule: without a loop.
#[inline(always)]
pub fn lines_soon<T>(of: &[T], at: usize, count: usize) {
    const { assert!(size_of::<T>() == LINE) };
    let start = of.as_ptr().wrapping_add(at);
    match count {
        _ if of.len().saturating_sub(at) < count => all_soon(of, at, count),
        4 => prefetch(start.cast(), 4),
        5 => prefetch(start.cast(), 5),
        _ => prefetch(start.cast(), count),
    }
}

/// The same of so many elements, as far as there are. Elements of whole lines are taken to begin with one.
#[inline(always)]
pub fn all_soon<T>(of: &[T], at: usize, count: usize) {
    if at < of.len() {
        let start = of.as_ptr().wrapping_add(at);
        let first = if size_of::<T>().is_multiple_of(LINE) { 0 } else { start.addr() % LINE };
        prefetch(start.cast(), (first + (size_of::<T>() * count.min(of.len() - at)).max(1)).div_ceil(LINE));
    }
}
