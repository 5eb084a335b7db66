//! A ring of descriptors in shared memory (memif 2.0): 128 bytes of header, then 16 bytes each.
//!
//! The client of a memif writes `head`, the server `tail`, whichever way packets go. Both count on and on, modulo 2^16.

use super::Fault;
use super::message::RingPlace;
use super::region::Region;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering, fence};

/// Says that memory is a ring.
const COOKIE: u32 = 0x03E3_1F20;
/// In a ring's flags: its receiver wants no interrupts.
const MASKED: u16 = 1;
/// In a descriptor's flags: the packet goes on in the next one.
const NEXT: u16 = 1;
const FLAGS: usize = 4;
const HEAD: usize = 6;
const TAIL: usize = 64;
const HEADER: usize = 128;
const DESCRIPTOR: usize = 16;
/// The largest ring that makes sense of 16-bit counters, as a logarithm.
const MAX_LOG2: u8 = 14;

/// One piece of a packet, or room for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The packet goes on in the next descriptor.
    pub more: bool,
    /// Which region.
    pub region: u16,
    /// In bytes.
    pub len: u32,
    /// Where it begins in its region.
    pub offset: u32,
}

/// A ring.
pub struct Ring {
    memory: Arc<Region>,
    place: RingPlace,
    /// Its interrupt: an eventfd.
    pub interrupt: OwnedFd,
    mask: u16,
}

impl Ring {
    /// Bytes that a ring takes.
    pub const fn bytes(log2_size: u8) -> usize {
        HEADER + (DESCRIPTOR << log2_size)
    }

    /// Looks at the place that the other end says. Its memory must be a ring, if it is not to be made one (`fresh`).
    ///
    /// # Errors
    /// It is not within its region, or is no ring.
    pub fn new(memory: Arc<Region>, place: RingPlace, interrupt: OwnedFd, fresh: bool) -> Result<Ring, Fault> {
        if place.log2_size > MAX_LOG2 {
            return Err(Fault::new(format!("a ring of 2^{} descriptors; 2^{MAX_LOG2} can be", place.log2_size)));
        }
        if place.private != 0 {
            return Err(Fault::new("a ring with a private header, which is not supported"));
        }
        let offset = place.offset as usize;
        let end = offset.checked_add(Ring::bytes(place.log2_size));
        if !offset.is_multiple_of(8) || end.is_none_or(|end| end > memory.len()) {
            return Err(Fault::new("a ring outside of its region, or not aligned in it"));
        }
        let ring = Ring { memory, place, interrupt, mask: (1 << place.log2_size) - 1 };
        let mut cookie = [0; 4];
        if fresh {
            let _ = ring.memory.write(offset, &COOKIE.to_ne_bytes());
        } else if !ring.memory.read(offset, &mut cookie) || u32::from_ne_bytes(cookie) != COOKIE {
            return Err(Fault::new("memory that is said to be a ring, and is none"));
        }
        Ok(ring)
    }

    /// What the other end is told of it.
    pub fn place(&self) -> RingPlace {
        self.place
    }

    /// How many descriptors it has.
    pub fn size(&self) -> u16 {
        self.mask + 1
    }

    fn number(&self, field: usize) -> &AtomicU16 {
        static NONE: AtomicU16 = AtomicU16::new(0);
        // Always there: `new` has looked.
        self.memory.number(self.place.offset as usize + field).unwrap_or(&NONE)
    }

    /// As the client wrote it, with all that it wrote before.
    pub fn head(&self) -> u16 {
        self.number(HEAD).load(Ordering::Acquire)
    }

    /// As the server wrote it, with all that it wrote before.
    pub fn tail(&self) -> u16 {
        self.number(TAIL).load(Ordering::Acquire)
    }

    /// Shows what was written up to here. For the client.
    pub fn set_head(&self, head: u16) {
        self.number(HEAD).store(head, Ordering::Release);
    }

    /// Shows what was written up to here. For the server.
    pub fn set_tail(&self, tail: u16) {
        self.number(TAIL).store(tail, Ordering::Release);
    }

    /// For the receiver: whether it wants interrupts. What was sent before is seen by a look at the ring after this.
    pub fn want_interrupts(&self, wanted: bool) {
        self.number(FLAGS).store(if wanted { 0 } else { MASKED }, Ordering::Relaxed);
        if wanted {
            fence(Ordering::SeqCst);
        }
    }

    /// For the sender, after it has shown packets: wakes the receiver if it wants to be.
    pub fn interrupt(&self) {
        fence(Ordering::SeqCst);
        if self.number(FLAGS).load(Ordering::Relaxed) & MASKED == 0 {
            // An eventfd that is full wakes anyhow.
            let _ = rustix::io::write(&self.interrupt, &1u64.to_ne_bytes());
        }
    }

    /// For the receiver: takes what interrupts there were.
    pub fn take_interrupts(&self) {
        let _ = rustix::io::read(&self.interrupt, &mut [0; 8]);
    }

    fn descriptor(&self, index: u16) -> usize {
        self.place.offset as usize + HEADER + usize::from(index & self.mask) * DESCRIPTOR
    }

    /// A descriptor, copied.
    pub fn piece(&self, index: u16) -> Piece {
        let mut bytes = [0; DESCRIPTOR];
        // Always there: `new` has looked.
        let _ = self.memory.read(self.descriptor(index), &mut bytes);
        let [f0, f1, r0, r1, l0, l1, l2, l3, o0, o1, o2, o3, ..] = bytes;
        Piece {
            more: u16::from_ne_bytes([f0, f1]) & NEXT != 0,
            region: u16::from_ne_bytes([r0, r1]),
            len: u32::from_ne_bytes([l0, l1, l2, l3]),
            offset: u32::from_ne_bytes([o0, o1, o2, o3]),
        }
    }

    /// Writes a descriptor.
    pub fn set_piece(&self, index: u16, piece: Piece) {
        let mut bytes = [0; DESCRIPTOR];
        bytes[..2].copy_from_slice(&(if piece.more { NEXT } else { 0 }).to_ne_bytes());
        bytes[2..4].copy_from_slice(&piece.region.to_ne_bytes());
        bytes[4..8].copy_from_slice(&piece.len.to_ne_bytes());
        bytes[8..12].copy_from_slice(&piece.offset.to_ne_bytes());
        let _ = self.memory.write(self.descriptor(index), &bytes);
    }
}
