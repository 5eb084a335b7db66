//! eBPF array maps in this process's memory, which are read without system calls.
#![allow(unsafe_code)]

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// A mapped array of counters of the eBPF program.
#[derive(Debug)]
pub struct MappedArray {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the value owns the mapping, which is read by atomics only.
unsafe impl Send for MappedArray {}
// SAFETY: the value owns the mapping, which is read by atomics only.
unsafe impl Sync for MappedArray {}

impl MappedArray {
    /// Maps an array of `words` 64-bit words.
    pub fn new(map: BorrowedFd<'_>, words: usize) -> io::Result<MappedArray> {
        // SAFETY: only queries a number.
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
        let len = (words * 8).next_multiple_of(page);
        // SAFETY: a new mapping at an address that the kernel chooses, which overlaps no other one.
        let start = unsafe { mmap(std::ptr::null_mut(), len, ProtFlags::READ, MapFlags::SHARED, map, 0) }?;
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(MappedArray { start, len })
    }

    /// Returns the word of this index; 0 beyond the end.
    pub fn get(&self, number: usize) -> u64 {
        if (number + 1) * 8 > self.len {
            return 0;
        }
        // SAFETY: within the mapping, aligned, and without plain references to it.
        unsafe { (*self.start.as_ptr().cast::<AtomicU64>().add(number)).load(Ordering::Relaxed) }
    }
}

impl Drop for MappedArray {
    fn drop(&mut self) {
        // SAFETY: unmaps the mapping of `new`, to which no reference exists.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// Returns the kernel's monotonic clock, which eBPF programs use, in nanoseconds.
pub fn monotonic() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call fills the structure.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
