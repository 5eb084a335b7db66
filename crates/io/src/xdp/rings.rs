//! The four rings of an AF_XDP socket, and its packet memory (Documentation/networking/af_xdp.rst
//! of the kernel).
//!
//! The kernel writes one end of each ring and this process the other one. The kernel is trusted,
//! but packet addresses are still checked against the memory's bounds.
#![allow(unsafe_code)]

use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use rustix::net::xdp::XdpRingOffset;
use std::ffi::c_void;
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// An owned memory mapping.
struct RingMapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the value owns the mapping.
unsafe impl Send for RingMapping {}

impl Drop for RingMapping {
    fn drop(&mut self) {
        // SAFETY: unmaps the owned mapping, to which no reference exists.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
    }
}

impl RingMapping {
    fn new(start: *mut c_void, len: usize) -> io::Result<RingMapping> {
        Ok(RingMapping { start: NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?, len })
    }
}

/// Packet memory: chunks of one size.
pub struct PacketMemory {
    mapping: RingMapping,
    chunk: usize,
}

impl PacketMemory {
    /// Allocates `chunks` chunks of `chunk` bytes.
    pub fn new(chunks: u32, chunk: usize) -> io::Result<PacketMemory> {
        let len = chunks as usize * chunk;
        // SAFETY: a new mapping at an address that the kernel chooses, which overlaps no other one.
        let start = unsafe {
            mmap_anonymous(std::ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)?
        };
        Ok(PacketMemory { mapping: RingMapping::new(start, len)?, chunk })
    }

    /// Returns the address and the length of the memory, in bytes.
    pub fn address_and_len(&self) -> (u64, u64) {
        (self.mapping.start.as_ptr() as u64, self.mapping.len as u64)
    }

    /// Returns the size of a chunk in bytes.
    pub fn chunk(&self) -> usize {
        self.chunk
    }

    /// Returns the bytes of a packet; `None` if they are out of bounds.
    pub fn read(&self, at: u64, len: usize) -> Option<&[u8]> {
        let at = usize::try_from(at).ok()?;
        if len > self.chunk || at.checked_add(len)? > self.mapping.len {
            return None;
        }
        // SAFETY: within the mapping. This process owns the chunk until its address returns to the
        // kernel, which needs a `&mut`.
        Some(unsafe { std::slice::from_raw_parts(self.mapping.start.as_ptr().add(at), len) })
    }

    /// Copies a packet to a chunk. Returns false if it does not fit.
    pub fn write(&mut self, at: u64, bytes: &[u8]) -> bool {
        let Ok(at) = usize::try_from(at) else { return false };
        if bytes.len() > self.chunk || at.checked_add(bytes.len()).is_none_or(|end| end > self.mapping.len) {
            return false;
        }
        // SAFETY: within the mapping, and this process owns the chunk.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.mapping.start.as_ptr().add(at), bytes.len()) };
        true
    }
}

/// A ring of elements `T`, of which this process has one end.
pub struct XdpRing<T> {
    mapping: RingMapping,
    at: XdpRingOffset,
    mask: u32,
    element: std::marker::PhantomData<T>,
}

impl<T: Copy> XdpRing<T> {
    /// Maps the ring at an offset of the socket, with `places` elements (a power of two).
    pub fn new(socket: BorrowedFd<'_>, offset: u64, at: XdpRingOffset, places: u32) -> io::Result<XdpRing<T>> {
        let len = at.desc as usize + places as usize * size_of::<T>();
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: a new mapping at an address that the kernel chooses, which overlaps no other one.
        let start =
            unsafe { mmap(std::ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, flags, socket, offset)? };
        Ok(XdpRing { mapping: RingMapping::new(start, len)?, at, mask: places - 1, element: std::marker::PhantomData })
    }

    fn number(&self, offset: u64) -> &AtomicU32 {
        // SAFETY: the kernel's offsets are within the mapping and aligned; both sides use atomics.
        unsafe { &*self.mapping.start.as_ptr().add(offset as usize).cast::<AtomicU32>() }
    }

    fn element(&self, number: u32) -> *mut T {
        // SAFETY: the index is below the number of elements, for which the mapping is large enough.
        unsafe { self.mapping.start.as_ptr().add(self.at.desc as usize).cast::<T>().add((number & self.mask) as usize) }
    }

    /// Returns whether the kernel needs a system call to process the ring.
    pub fn needs_wakeup(&self) -> bool {
        self.at.flags.is_some_and(|flags| self.number(flags).load(Ordering::Relaxed) & 1 == 1)
    }

    /// Returns whether the consumer has taken all elements.
    pub fn is_drained(&self) -> bool {
        let taken = self.number(self.at.consumer).load(Ordering::Acquire);
        self.number(self.at.producer).load(Ordering::Relaxed) == taken
    }

    /// Consumes up to `max_count` elements that the kernel has produced, and passes each to
    /// `handle`. Returns their number.
    ///
    /// Producer and consumer are counters that wrap; the element of a number is at its lower bits.
    pub fn consume(&mut self, max_count: usize, mut handle: impl FnMut(T)) -> usize {
        let produced = self.number(self.at.producer).load(Ordering::Acquire);
        let first = self.number(self.at.consumer).load(Ordering::Relaxed);
        let count = produced.wrapping_sub(first).min(self.mask + 1).min(max_count.min(1 << 30) as u32);
        for number in 0..count {
            // SAFETY: the kernel has written the element and does not access it until it is
            // returned below.
            handle(unsafe { self.element(first.wrapping_add(number)).read() });
        }
        self.number(self.at.consumer).store(first.wrapping_add(count), Ordering::Release);
        count as usize
    }

    /// Produces elements up to the free space. Returns their number.
    pub fn produce(&mut self, elements: &mut dyn Iterator<Item = T>) -> usize {
        let consumed = self.number(self.at.consumer).load(Ordering::Acquire);
        let first = self.number(self.at.producer).load(Ordering::Relaxed);
        // The counters wrap, so their difference is the number of elements in the ring.
        let free = (self.mask + 1).saturating_sub(first.wrapping_sub(consumed));
        let mut count = 0;
        while count < free {
            let Some(element) = elements.next() else { break };
            // SAFETY: the kernel has consumed the old element and does not read the new one until
            // the store below.
            unsafe { self.element(first.wrapping_add(count)).write(element) };
            count += 1;
        }
        self.number(self.at.producer).store(first.wrapping_add(count), Ordering::Release);
        count as usize
    }

    /// Returns the number of free elements.
    pub fn free_count(&self) -> usize {
        let consumed = self.number(self.at.consumer).load(Ordering::Acquire);
        let first = self.number(self.at.producer).load(Ordering::Relaxed);
        (self.mask + 1).saturating_sub(first.wrapping_sub(consumed)) as usize
    }
}
