//! Array maps of the kernel, in this process's memory: read without asking the kernel.
#![allow(unsafe_code)]

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// An array of words that the kernel's program counts in.
#[derive(Debug)]
pub struct Words {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping belongs to the value, and is read by atomics only.
unsafe impl Send for Words {}
// SAFETY: as above.
unsafe impl Sync for Words {}

impl Words {
    /// An array of so many words.
    pub fn new(map: BorrowedFd<'_>, words: usize) -> io::Result<Words> {
        // SAFETY: asks for a number.
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
        let len = (words * 8).next_multiple_of(page);
        // SAFETY: a new mapping at a place of the kernel's choice, which overlaps nothing.
        let start = unsafe { mmap(std::ptr::null_mut(), len, ProtFlags::READ, MapFlags::SHARED, map, 0) }?;
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Words { start, len })
    }

    /// The word of that number; 0 beyond the end.
    pub fn get(&self, number: usize) -> u64 {
        if (number + 1) * 8 > self.len {
            return 0;
        }
        // SAFETY: within the mapping, aligned, and nobody makes a plain reference to it.
        unsafe { (*self.start.as_ptr().cast::<AtomicU64>().add(number)).load(Ordering::Relaxed) }
    }
}

impl Drop for Words {
    fn drop(&mut self) {
        // SAFETY: what was mapped, and nobody has it any more.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// The kernel's clock that its programs read, in nanoseconds.
pub fn monotonic() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure is the call's to fill.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
