//! [`HugeWords`]: zeroed memory in huge pages, for tables that would otherwise measure the TLB.

#![allow(unsafe_code)] // memory mappings

use crate::machine::HUGE_PAGE;
use std::ops::{Deref, DerefMut};

/// Words of 64 bits in huge pages: reserved ones if there are enough, else transparent ones.
#[derive(Debug)]
pub struct HugeWords {
    start: *mut u64,
    words: usize,
    bytes: usize,
    /// Whether the memory is in reserved huge pages.
    pub reserved: bool,
}

impl HugeWords {
    /// Allocates `words` words of value 0.
    ///
    /// # Errors
    /// If the machine does not have enough memory.
    pub fn zeroed(words: usize) -> std::io::Result<HugeWords> {
        let bytes = (words.max(1) * 8).next_multiple_of(HUGE_PAGE);
        if let Ok(start) = map_memory(bytes, libc::MAP_HUGETLB) {
            return Ok(HugeWords { start, words, bytes, reserved: true });
        }
        let start = map_memory(bytes, 0)?;
        // SAFETY: the range was just mapped; advice does not change its contents.
        unsafe { libc::madvise(start.cast(), bytes, libc::MADV_HUGEPAGE) };
        Ok(HugeWords { start, words, bytes, reserved: false })
    }
}

fn map_memory(bytes: usize, flags: i32) -> std::io::Result<*mut u64> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags;
    // SAFETY: a new anonymous mapping does not affect existing memory.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
    if start == libc::MAP_FAILED { Err(std::io::Error::last_os_error()) } else { Ok(start.cast()) }
}

impl Deref for HugeWords {
    type Target = [u64];

    fn deref(&self) -> &[u64] {
        // SAFETY: the mapping is at least that long, zeroed, aligned to a page, and lives as long
        // as `self`.
        unsafe { std::slice::from_raw_parts(self.start, self.words) }
    }
}

impl DerefMut for HugeWords {
    fn deref_mut(&mut self) -> &mut [u64] {
        // SAFETY: as in `deref`, and `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.words) }
    }
}

impl Drop for HugeWords {
    fn drop(&mut self) {
        // SAFETY: the mapping is owned by `self`, and no borrow of it outlives `self`.
        unsafe { libc::munmap(self.start.cast(), self.bytes) };
    }
}

// SAFETY: plain memory that this value exclusively owns.
unsafe impl Send for HugeWords {}
