//! Memory that two processes share. Whatever is read from it, the other one may have written, or may write at the same moment: it is copied out once
//! and looked at afterwards, and no reference into it is ever made.
#![allow(unsafe_code)]

use super::Fault;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU16;

/// The most bytes of one region.
const MAX: u64 = 1 << 32;

/// One piece of shared memory, mapped.
pub struct Region {
    descriptor: OwnedFd,
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping belongs to the value; all access is by whole copies and atomics, for which it does not matter who else has access.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// New memory of `len` bytes, which nobody can make shorter any more.
    pub fn create(len: usize) -> io::Result<Region> {
        let descriptor = memfd_create("terrace-memif", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&descriptor, len as u64)?;
        fcntl_add_seals(&descriptor, SealFlags::SHRINK)?;
        Ok(Region::map(descriptor, len)?)
    }

    /// Another process's memory of `len` bytes.
    ///
    /// # Errors
    /// It is not as long as that, or could be made shorter later, which would end whoever reads it then (SIGBUS).
    pub fn open(descriptor: OwnedFd, len: u64) -> Result<Region, Fault> {
        if len == 0 || len > MAX {
            return Err(Fault::new(format!("a region of {len} bytes; 1 to {MAX} can be")));
        }
        // Whoever has the descriptor may seal it; most have done so.
        let _ = fcntl_add_seals(&descriptor, SealFlags::SHRINK);
        if !fcntl_get_seals(&descriptor).is_ok_and(|seals| seals.contains(SealFlags::SHRINK)) {
            return Err(Fault::new("a region that can be made shorter: it is no memfd, or is sealed against seals"));
        }
        let there = fstat(&descriptor).map_or(0, |stat| u64::try_from(stat.st_size).unwrap_or(0));
        if there < len {
            return Err(Fault::new(format!("a region of {len} bytes with {there} bytes of memory")));
        }
        Region::map(descriptor, len as usize).map_err(|error| Fault::new(format!("a region cannot be mapped: {error}")))
    }

    fn map(descriptor: OwnedFd, len: usize) -> rustix::io::Result<Region> {
        // SAFETY: a new mapping at a place of the kernel's choice, which overlaps nothing.
        let start = unsafe {
            mmap(std::ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, &descriptor, 0)?
        };
        let start = NonNull::new(start.cast()).ok_or(rustix::io::Errno::NOMEM)?;
        Ok(Region { descriptor, start, len })
    }

    /// In bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The memory's descriptor.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    /// Where `len` bytes at `offset` are, if they all are within.
    fn place(&self, offset: usize, len: usize) -> Option<*mut u8> {
        let end = offset.checked_add(len)?;
        // SAFETY: within the mapping, as `end` is.
        (end <= self.len).then(|| unsafe { self.start.as_ptr().add(offset) })
    }

    /// Copies bytes out; `false` if they are not all within.
    #[must_use]
    pub fn read(&self, offset: usize, to: &mut [u8]) -> bool {
        let Some(from) = self.place(offset, to.len()) else { return false };
        // SAFETY: `from` has as many bytes, mapped for the life of `self`; `to` is memory of our own, so they do not overlap. The other process may
        // write meanwhile: any bytes are good, and they are looked at only in the copy.
        unsafe { std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len()) };
        true
    }

    /// Copies bytes in; `false` if there is not room for all.
    #[must_use]
    pub fn write(&self, offset: usize, from: &[u8]) -> bool {
        let Some(to) = self.place(offset, from.len()) else { return false };
        // SAFETY: as for `read`, the other way round; no references into the mapping exist.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) };
        true
    }

    /// A number that both processes read and write.
    pub fn number(&self, offset: usize) -> Option<&AtomicU16> {
        let place = self.place(offset, 2)?.cast::<u16>();
        // SAFETY: aligned (looked at here), mapped for the life of `self`, and of a type for which access by others is no race.
        place.is_aligned().then(|| unsafe { AtomicU16::from_ptr(place) })
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this start and length, and nothing refers to it any more.
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
        assert!(region.number(4094).is_some() && region.number(4095).is_none() && region.number(1).is_none());
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
