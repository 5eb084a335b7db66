//! Memory that two processes share. The other process can write it at any time. So data is copied
//! out once and validated afterwards, and no reference into the memory is created.
#![allow(unsafe_code)]

use super::ConnectionFault;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU16;

/// Maximum size of a region, in bytes.
const MAX_REGION_BYTES: u64 = 1 << 32;

/// A mapped region of shared memory.
pub struct Region {
    descriptor: OwnedFd,
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the value owns the mapping. All access is by whole copies and atomics, which are valid
// with concurrent access.
unsafe impl Send for Region {}
// SAFETY: the value owns the mapping. All access is by whole copies and atomics, which are valid
// with concurrent access.
unsafe impl Sync for Region {}

impl Region {
    /// Creates memory of `len` bytes, sealed against shrinking.
    pub fn create(len: usize) -> io::Result<Region> {
        let descriptor = memfd_create("terrace-memif", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&descriptor, len as u64)?;
        fcntl_add_seals(&descriptor, SealFlags::SHRINK)?;
        Ok(Region::map(descriptor, len)?)
    }

    /// Maps another process's memory of `len` bytes.
    ///
    /// # Errors
    /// It is shorter than `len`, or could be truncated later, which would end the reading process
    /// (SIGBUS).
    pub fn open(descriptor: OwnedFd, len: u64) -> Result<Region, ConnectionFault> {
        if len == 0 || len > MAX_REGION_BYTES {
            return Err(ConnectionFault::new(format!(
                "a region of {len} bytes; the size must be from 1 to {MAX_REGION_BYTES}"
            )));
        }
        // Each holder of the descriptor may seal it; most peers have done so.
        let _ = fcntl_add_seals(&descriptor, SealFlags::SHRINK);
        if !fcntl_get_seals(&descriptor).is_ok_and(|seals| seals.contains(SealFlags::SHRINK)) {
            return Err(ConnectionFault::new(
                "a region that can be made shorter: it is no memfd, or is sealed against seals",
            ));
        }
        let actual_len = fstat(&descriptor).map_or(0, |stat| u64::try_from(stat.st_size).unwrap_or(0));
        if actual_len < len {
            return Err(ConnectionFault::new(format!("a region of {len} bytes with {actual_len} bytes of memory")));
        }
        Region::map(descriptor, len as usize)
            .map_err(|error| ConnectionFault::new(format!("a region cannot be mapped: {error}")))
    }

    /// Maps the first `len` bytes of a shared memory object.
    fn map(descriptor: OwnedFd, len: usize) -> rustix::io::Result<Region> {
        // SAFETY: a new mapping at an address that the kernel chooses, which overlaps no other one.
        let start = unsafe {
            mmap(std::ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, &descriptor, 0)?
        };
        let start = NonNull::new(start.cast()).ok_or(rustix::io::Errno::NOMEM)?;
        Ok(Region { descriptor, start, len })
    }

    /// Returns the size in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns the memory's descriptor.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    /// Returns a pointer to `len` bytes at `offset`, or `None` if they are out of bounds.
    fn pointer_to(&self, offset: usize, len: usize) -> Option<*mut u8> {
        let end = offset.checked_add(len)?;
        // SAFETY: within the mapping, because `end` is.
        (end <= self.len).then(|| unsafe { self.start.as_ptr().add(offset) })
    }

    /// Copies bytes out. Returns false if they are out of bounds.
    #[must_use]
    pub fn read(&self, offset: usize, to: &mut [u8]) -> bool {
        let Some(from) = self.pointer_to(offset, to.len()) else { return false };
        // SAFETY: `from` has that number of mapped bytes for the life of `self`; `to` is private
        // memory, so they do not overlap. The other process may write concurrently: any bytes are
        // valid, and only the copy is interpreted.
        unsafe { std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len()) };
        true
    }

    /// Copies bytes in. Returns false if they are out of bounds.
    #[must_use]
    pub fn write(&self, offset: usize, from: &[u8]) -> bool {
        let Some(to) = self.pointer_to(offset, from.len()) else { return false };
        // SAFETY: as for `read`, in the other direction; no references into the mapping exist.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) };
        true
    }

    /// Returns a number that both processes access, or `None` if it is out of bounds or unaligned.
    pub fn shared_u16(&self, offset: usize) -> Option<&AtomicU16> {
        let pointer = self.pointer_to(offset, 2)?.cast::<u16>();
        // SAFETY: aligned (checked here), mapped for the life of `self`, and of an atomic type, for
        // which concurrent access is no data race.
        pointer.is_aligned().then(|| unsafe { AtomicU16::from_ptr(pointer) })
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the mapping was created with this start and length, and no reference to it
        // exists.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_outside_is_read_or_written() {
        let region = Region::create(4096).expect("memory");
        let mut bytes = [0; 8];
        assert!(region.write(4088, &[1; 8]) && region.read(4088, &mut bytes));
        assert_eq!(bytes, [1; 8]);
        assert!(!region.write(4089, &[1; 8]) && !region.read(usize::MAX, &mut bytes));
        assert!(
            region.shared_u16(4094).is_some() && region.shared_u16(4095).is_none() && region.shared_u16(1).is_none()
        );
    }

    #[test]
    fn memory_that_could_be_made_shorter_is_refused() {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let memory = || memfd_create("test", flags).expect("memory");
        let short = memory();
        ftruncate(&short, 100).expect("memory");
        assert!(Region::open(short, 101).is_err());
        let sealed = memory();
        ftruncate(&sealed, 100).expect("memory");
        fcntl_add_seals(&sealed, SealFlags::SEAL).expect("sealed");
        assert!(Region::open(sealed, 100).is_err());
        assert!(Region::open(tempfile::tempfile().expect("a file").into(), 1).is_err());
        let good = memory();
        ftruncate(&good, 100).expect("memory");
        let again = good.try_clone().expect("a descriptor");
        let region = Region::open(good, 100).expect("good");
        assert!(ftruncate(&again, 0).is_err(), "it is sealed now");
        assert_eq!(region.len(), 100);
    }
}
