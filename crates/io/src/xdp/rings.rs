//! The four rings of an AF_XDP socket, and the memory that its packets lie in (Documentation/networking/af_xdp.rst of the kernel).
//!
//! The kernel writes one end of each ring and this process the other one. The kernel is trusted; yet what it says of a packet is held to the memory's bounds.
#![allow(unsafe_code)]

use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use rustix::net::xdp::XdpRingOffset;
use std::ffi::c_void;
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// A mapping of its own.
struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping belongs to the value.
unsafe impl Send for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: what was mapped, and nobody has it any more.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
    }
}

impl Mapping {
    fn new(start: *mut c_void, len: usize) -> io::Result<Mapping> {
        Ok(Mapping { start: NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?, len })
    }
}

/// Where packets lie: chunks of one size.
pub struct Memory {
    mapping: Mapping,
    chunk: usize,
}

impl Memory {
    /// So many chunks.
    pub fn new(chunks: u32, chunk: usize) -> io::Result<Memory> {
        let len = chunks as usize * chunk;
        // SAFETY: a new mapping at a place of the kernel's choice, which overlaps nothing.
        let start = unsafe {
            mmap_anonymous(std::ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)?
        };
        Ok(Memory { mapping: Mapping::new(start, len)?, chunk })
    }

    /// Its first byte's address, and how many there are.
    pub fn place(&self) -> (u64, u64) {
        (self.mapping.start.as_ptr() as u64, self.mapping.len as u64)
    }

    /// Bytes of a chunk.
    pub fn chunk(&self) -> usize {
        self.chunk
    }

    /// Copies a packet out; `None` if it does not lie in the memory.
    pub fn read(&self, at: u64, len: usize) -> Option<&[u8]> {
        let at = usize::try_from(at).ok()?;
        if len > self.chunk || at.checked_add(len)? > self.mapping.len {
            return None;
        }
        // SAFETY: within the mapping; the chunk is this process's until its address goes back to the kernel, for which a `&mut` is needed.
        Some(unsafe { std::slice::from_raw_parts(self.mapping.start.as_ptr().add(at), len) })
    }

    /// Copies a packet in; false if there is no room.
    pub fn write(&mut self, at: u64, bytes: &[u8]) -> bool {
        let Ok(at) = usize::try_from(at) else { return false };
        if bytes.len() > self.chunk || at.checked_add(bytes.len()).is_none_or(|end| end > self.mapping.len) {
            return false;
        }
        // SAFETY: within the mapping, and the chunk is this process's.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.mapping.start.as_ptr().add(at), bytes.len()) };
        true
    }
}

/// A ring of elements `T`, of which this process has one end.
pub struct Ring<T> {
    mapping: Mapping,
    at: XdpRingOffset,
    mask: u32,
    element: std::marker::PhantomData<T>,
}

impl<T: Copy> Ring<T> {
    /// The ring at an offset of the socket's, with so many places (a power of two).
    pub fn new(socket: BorrowedFd<'_>, offset: u64, at: XdpRingOffset, places: u32) -> io::Result<Ring<T>> {
        let len = at.desc as usize + places as usize * size_of::<T>();
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: a new mapping at a place of the kernel's choice, which overlaps nothing.
        let start =
            unsafe { mmap(std::ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, flags, socket, offset)? };
        Ok(Ring { mapping: Mapping::new(start, len)?, at, mask: places - 1, element: std::marker::PhantomData })
    }

    fn number(&self, offset: u64) -> &AtomicU32 {
        // SAFETY: the kernel's offsets are within the mapping, and aligned; both sides use atomics.
        unsafe { &*self.mapping.start.as_ptr().add(offset as usize).cast::<AtomicU32>() }
    }

    fn element(&self, number: u32) -> *mut T {
        // SAFETY: below the number of places, for which the mapping is large enough.
        unsafe { self.mapping.start.as_ptr().add(self.at.desc as usize).cast::<T>().add((number & self.mask) as usize) }
    }

    /// Whether the kernel wants to be told that there is work.
    pub fn wants_call(&self) -> bool {
        self.at.flags.is_some_and(|flags| self.number(flags).load(Ordering::Relaxed) & 1 == 1)
    }

    /// Whether whoever takes has taken all.
    pub fn is_drained(&self) -> bool {
        let taken = self.number(self.at.consumer).load(Ordering::Acquire);
        self.number(self.at.producer).load(Ordering::Relaxed) == taken
    }

    /// Takes up to `most` elements that the kernel has put there.
    pub fn take(&mut self, most: usize, mut each: impl FnMut(T)) -> usize {
        let produced = self.number(self.at.producer).load(Ordering::Acquire);
        let first = self.number(self.at.consumer).load(Ordering::Relaxed);
        let count = produced.wrapping_sub(first).min(self.mask + 1).min(most.min(1 << 30) as u32);
        for number in 0..count {
            // SAFETY: the kernel has put the element there and does not touch it until it is given back below.
            each(unsafe { self.element(first.wrapping_add(number)).read() });
        }
        self.number(self.at.consumer).store(first.wrapping_add(count), Ordering::Release);
        count as usize
    }

    /// Puts elements there as far as there is room, and returns how many.
    pub fn put(&mut self, elements: &mut dyn Iterator<Item = T>) -> usize {
        let consumed = self.number(self.at.consumer).load(Ordering::Acquire);
        let first = self.number(self.at.producer).load(Ordering::Relaxed);
        let room = (self.mask + 1).saturating_sub(first.wrapping_sub(consumed));
        let mut count = 0;
        while count < room {
            let Some(element) = elements.next() else { break };
            // SAFETY: the kernel has taken what was there, and does not look until it is told below.
            unsafe { self.element(first.wrapping_add(count)).write(element) };
            count += 1;
        }
        self.number(self.at.producer).store(first.wrapping_add(count), Ordering::Release);
        count as usize
    }

    /// How many more fit.
    pub fn room(&self) -> usize {
        let consumed = self.number(self.at.consumer).load(Ordering::Acquire);
        let first = self.number(self.at.producer).load(Ordering::Relaxed);
        (self.mask + 1).saturating_sub(first.wrapping_sub(consumed)) as usize
    }
}
