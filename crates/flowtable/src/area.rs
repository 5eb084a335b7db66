//! Zeroed memory whose address space is reserved at once; touching allocates pages.
#![allow(unsafe_code)]

use crate::ShapeError;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Size of a huge page in bytes.
const HUGE_PAGE: usize = 2 << 20;

/// Memory of fixed size, zeroed, aligned to a huge page. It never moves, so that records can be
/// named by number and read while other numbers are added. 64 bytes after the end may be read.
///
/// Users share it between threads and synchronise by atomic words inside of it; the area itself
/// hands out addresses only.
pub(crate) struct Area {
    start: NonNull<u8>,
    len: usize,
    mapping: (*mut libc::c_void, usize),
    /// Bytes from the start whose pages exist.
    populated: AtomicUsize,
}

// SAFETY: an area is an address range; each use of an address keeps the rules of sharing.
unsafe impl Send for Area {}
// SAFETY: as above.
unsafe impl Sync for Area {}

impl Area {
    /// Reserves `len` bytes of zeros.
    pub fn new(len: usize) -> Result<Area, ShapeError> {
        let bytes = (len + 64).next_multiple_of(HUGE_PAGE) + HUGE_PAGE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new private mapping at an address that the kernel chooses.
        let mapped = unsafe { libc::mmap(null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
        if mapped == libc::MAP_FAILED {
            return Err(ShapeError::AddressSpace { bytes });
        }
        let skip = mapped.align_offset(HUGE_PAGE);
        let start = mapped.cast::<u8>().wrapping_add(skip);
        if len >= HUGE_PAGE {
            // SAFETY: the range lies in the mapping. The advice may be refused, and is then
            // ignored.
            unsafe { libc::madvise(start.cast(), bytes - HUGE_PAGE, libc::MADV_HUGEPAGE) };
        }
        let start = NonNull::new(start).ok_or(ShapeError::AddressSpace { bytes })?;
        Ok(Area { start, len, mapping: (mapped, bytes), populated: AtomicUsize::new(0) })
    }

    /// Lets the kernel allocate the pages of the first `len` bytes, in steps of huge pages. Bytes
    /// keep their values. Returns whether the kernel could.
    pub fn populate(&self, len: usize) -> bool {
        let end = len.min(self.len).next_multiple_of(HUGE_PAGE);
        let start = self.populated.load(Relaxed);
        if start >= end {
            return true;
        }
        let address = self.start.as_ptr().wrapping_add(start).cast();
        // SAFETY: the range lies in the mapping, which ends a huge page after the last byte.
        // Populating changes no byte (madvise(2), since Linux 5.14).
        let is_done = unsafe { libc::madvise(address, end - start, libc::MADV_POPULATE_WRITE) } == 0;
        if is_done {
            self.populated.fetch_max(end, Relaxed);
        }
        is_done
    }

    /// Returns the address of byte `at`; it lies in the area if `at` is at most its length.
    #[inline(always)]
    pub fn at(&self, at: usize) -> *mut u8 {
        debug_assert!(at <= self.len, "byte {at} of {}", self.len);
        self.start.as_ptr().wrapping_add(at)
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        // SAFETY: `new` made the mapping, and no address is used after its area is dropped.
        unsafe { libc::munmap(self.mapping.0, self.mapping.1) };
    }
}
