//! A ring of descriptors in shared memory (memif 2.0): a header of 128 bytes, then 16 bytes per
//! descriptor.
//!
//! The client of a memif writes `head` and the server `tail`, for both directions of packets. Both
//! counters increase modulo 2^16.

use super::ConnectionFault;
use super::message::RingLocation;
use super::region::Region;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering, fence};

/// Magic number of a ring.
const COOKIE: u32 = 0x03E3_1F20;
/// Ring flag: the receiver wants no interrupts.
const MASKED: u16 = 1;
/// Descriptor flag: the packet continues in the next one.
const NEXT: u16 = 1;
const FLAGS: usize = 4;
const HEAD: usize = 6;
const TAIL: usize = 64;
const HEADER: usize = 128;
const DESCRIPTOR: usize = 16;
/// Maximum size of a ring with 16-bit counters, as logarithm to base 2.
const MAX_LOG2: u8 = 14;

/// A ring descriptor: a part of a packet, or a free buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// Whether the packet continues in the next descriptor.
    pub more: bool,
    /// Index of the region.
    pub region: u16,
    /// Length in bytes.
    pub len: u32,
    /// Offset in the region, in bytes.
    pub offset: u32,
}

/// A ring with its interrupt.
pub struct Ring {
    memory: Arc<Region>,
    place: RingLocation,
    /// Its interrupt, an eventfd.
    pub interrupt: OwnedFd,
    mask: u16,
}

impl Ring {
    /// Returns the size of a ring in bytes.
    pub const fn bytes(log2_size: u8) -> usize {
        HEADER + (DESCRIPTOR << log2_size)
    }

    /// Validates the location of a ring. Initialises the memory if `is_new`; otherwise it must
    /// contain a ring. `interrupt` is the eventfd of its receiver.
    ///
    /// # Errors
    /// The location is out of bounds or unaligned, or the memory contains no ring.
    pub fn new(
        memory: Arc<Region>,
        location: RingLocation,
        interrupt: OwnedFd,
        is_new: bool,
    ) -> Result<Ring, ConnectionFault> {
        if location.log2_size > MAX_LOG2 {
            return Err(ConnectionFault::new(format!(
                "a ring of 2^{} descriptors; the maximum is 2^{MAX_LOG2}",
                location.log2_size
            )));
        }
        if location.private != 0 {
            return Err(ConnectionFault::new("a ring with a private header, which is not supported"));
        }
        let offset = location.offset as usize;
        let end = offset.checked_add(Ring::bytes(location.log2_size));
        if !offset.is_multiple_of(8) || end.is_none_or(|end| end > memory.len()) {
            return Err(ConnectionFault::new("a ring outside of its region, or not aligned in it"));
        }
        let ring = Ring { memory, place: location, interrupt, mask: (1 << location.log2_size) - 1 };
        let mut cookie = [0; 4];
        if is_new {
            let _ = ring.memory.write(offset, &COOKIE.to_ne_bytes());
        } else if !ring.memory.read(offset, &mut cookie) || u32::from_ne_bytes(cookie) != COOKIE {
            return Err(ConnectionFault::new("the memory of a ring contains no ring"));
        }
        Ok(ring)
    }

    /// Returns the location of the ring.
    pub fn location(&self) -> RingLocation {
        self.place
    }

    /// Returns the number of its descriptors.
    pub fn size(&self) -> u16 {
        self.mask + 1
    }

    fn shared_u16(&self, field: usize) -> &AtomicU16 {
        static NONE: AtomicU16 = AtomicU16::new(0);
        // In bounds, because `new` has checked it.
        self.memory.shared_u16(self.place.offset as usize + field).unwrap_or(&NONE)
    }

    /// Returns the client's counter (acquire).
    pub fn head(&self) -> u16 {
        self.shared_u16(HEAD).load(Ordering::Acquire)
    }

    /// Returns the server's counter (acquire).
    pub fn tail(&self) -> u16 {
        self.shared_u16(TAIL).load(Ordering::Acquire)
    }

    /// Publishes the client's writes (release). For the client.
    pub fn set_head(&self, head: u16) {
        self.shared_u16(HEAD).store(head, Ordering::Release);
    }

    /// Publishes the server's writes (release). For the server.
    pub fn set_tail(&self, tail: u16) {
        self.shared_u16(TAIL).store(tail, Ordering::Release);
    }

    /// Enables or disables interrupts of the receiver. After enabling, the receiver must check the
    /// ring, because earlier packets cause no interrupt.
    pub fn want_interrupts(&self, wanted: bool) {
        self.shared_u16(FLAGS).store(if wanted { 0 } else { MASKED }, Ordering::Relaxed);
        if wanted {
            fence(Ordering::SeqCst);
        }
    }

    /// Interrupts the receiver if it has enabled interrupts. For the sender, after publishing
    /// packets.
    pub fn interrupt(&self) {
        fence(Ordering::SeqCst);
        if self.shared_u16(FLAGS).load(Ordering::Relaxed) & MASKED == 0 {
            // A full eventfd is readable, too.
            let _ = rustix::io::write(&self.interrupt, &1u64.to_ne_bytes());
        }
    }

    /// Clears pending interrupts of the receiver.
    pub fn clear_interrupts(&self) {
        let _ = rustix::io::read(&self.interrupt, &mut [0; 8]);
    }

    fn descriptor_offset(&self, index: u16) -> usize {
        self.place.offset as usize + HEADER + usize::from(index & self.mask) * DESCRIPTOR
    }

    /// Returns a copy of a descriptor.
    pub fn read_descriptor(&self, index: u16) -> Descriptor {
        let mut bytes = [0; DESCRIPTOR];
        // In bounds, because `new` has checked it.
        let _ = self.memory.read(self.descriptor_offset(index), &mut bytes);
        // Flags, region, length and offset, in host order.
        let [f0, f1, r0, r1, l0, l1, l2, l3, o0, o1, o2, o3, ..] = bytes;
        Descriptor {
            more: u16::from_ne_bytes([f0, f1]) & NEXT != 0,
            region: u16::from_ne_bytes([r0, r1]),
            len: u32::from_ne_bytes([l0, l1, l2, l3]),
            offset: u32::from_ne_bytes([o0, o1, o2, o3]),
        }
    }

    /// Writes a descriptor.
    pub fn write_descriptor(&self, index: u16, piece: Descriptor) {
        let mut bytes = [0; DESCRIPTOR];
        bytes[..2].copy_from_slice(&(if piece.more { NEXT } else { 0 }).to_ne_bytes());
        bytes[2..4].copy_from_slice(&piece.region.to_ne_bytes());
        bytes[4..8].copy_from_slice(&piece.len.to_ne_bytes());
        bytes[8..12].copy_from_slice(&piece.offset.to_ne_bytes());
        let _ = self.memory.write(self.descriptor_offset(index), &bytes);
    }
}
