//! [`Packet`]: the bytes of one packet with room in front and behind.

use crate::{Lender, Loan, PortId};
use bytemuck::{Pod, Zeroable};
use thiserror::Error;

/// The longest packet, in bytes, from the first byte of the Ethernet header and without the frame check sequence.
/// A jumbo frame (9216 bytes) with several layers of encapsulation fits.
pub const MAX_LEN: usize = 16 * 1024;

/// Bytes kept free in front of a received packet: VXLAN over IPv6 with two VLAN tags needs 78, and a bridge header
/// between tiers comes on top of that. A buffer on loan can have fewer: DPDK's drivers leave 128.
pub const HEADROOM: usize = 256;

/// The size in bytes of a buffer when it is first used; holds a packet of the usual 1500-byte MTU. Grows on demand. Not a power of two, and with what the allocator
/// puts in front an odd number of lines: the first lines of all packets of a batch would share a few sets of the nearest cache.
const FIRST_BUFFER: usize = 2048 + 128;

/// A packet would have become longer than [`MAX_LEN`]. The packet is as it was before the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a packet of {wanted} bytes is longer than the longest possible ({MAX_LEN} bytes)")]
pub struct PacketTooLong {
    /// The length in bytes that was asked for (saturates).
    pub wanted: usize,
}

/// More bytes were to be removed than the packet has. The packet is as it was before the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("cannot remove {wanted} bytes from the front of a packet of {len} bytes")]
pub struct PacketTooShort {
    /// The number of bytes that were to be removed.
    pub wanted: usize,
    /// The packet's length in bytes.
    pub len: usize,
}

/// One packet: its bytes, and what is known of its arrival.
///
/// The bytes are one contiguous stretch of a larger buffer: `headroom | bytes | tailroom`. Headers are added and removed at
/// the front by moving the start of the stretch; the bytes themselves move only when the headroom is used up.
/// The buffer never shrinks, so a packet that is reused allocates nothing.
///
/// The buffer is the packet's own, or on loan from a port ([`Packet::lend`]). Nothing else differs: a packet that outgrows its loan moves to a
/// buffer of its own, and the loan goes back to its lender.
///
/// No method panics whatever lengths it is given.
#[derive(Default)]
pub struct Packet {
    /// Where the bytes are.
    storage: Storage,
    /// Offset of the first byte of the packet; `start + len` is at most the buffer's length.
    start: usize,
    len: usize,
    /// The port on which the packet arrived.
    pub ingress_port: PortId,
    /// When it arrived, in nanoseconds since the Unix epoch (for a capture file: the record's time; in tests: any clock).
    pub received_at: u64,
    /// The length in bytes by which meters and counters go, if it is not that of the packet: it came from the tier above, with a bridge header, and had another
    /// one when it came to that.
    pub came_with: Option<u32>,
    /// By which a packet is followed through tiers; 0 if it is not. Whoever runs the engine gives it, never the network.
    pub mark: u16,
}

/// The buffer of a packet. All bytes are always initialised; their number is the capacity of the packet.
enum Storage {
    /// Empty until first used.
    Own(Vec<Line>),
    Loan(Loan),
}

/// A cache line. Packets in buffers of their own begin with one, as those in a port's buffers do: one that begins elsewhere has a line more to look at.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
struct Line([u8; 64]);

const _: () = assert!(HEADROOM.is_multiple_of(size_of::<Line>()));

impl Default for Storage {
    fn default() -> Storage {
        Storage::Own(Vec::new())
    }
}

impl Storage {
    #[inline]
    fn bytes(&self) -> &[u8] {
        match self {
            Storage::Own(buffer) => bytemuck::must_cast_slice(buffer),
            Storage::Loan(loan) => loan.bytes(),
        }
    }

    #[inline]
    fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Storage::Own(buffer) => bytemuck::must_cast_slice_mut(buffer),
            Storage::Loan(loan) => loan.bytes_mut(),
        }
    }

    fn len(&self) -> usize {
        self.bytes().len()
    }
}

impl Packet {
    /// An empty packet without a buffer; the buffer is allocated on first use.
    pub const fn new() -> Packet {
        Packet {
            storage: Storage::Own(Vec::new()),
            start: 0,
            len: 0,
            ingress_port: PortId(0),
            received_at: 0,
            came_with: None,
            mark: 0,
        }
    }

    /// A packet that holds a copy of `bytes`, with [`HEADROOM`] bytes in front.
    pub fn from_bytes(bytes: &[u8]) -> Result<Packet, PacketTooLong> {
        let mut packet = Packet::new();
        packet.set_bytes(bytes)?;
        Ok(packet)
    }

    /// The length in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the packet has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The packet's bytes, from the first of the Ethernet header.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.storage.bytes()[self.start..self.start + self.len]
    }

    /// The packet's bytes, to be rewritten in place.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.storage.bytes_mut()[self.start..self.start + self.len]
    }

    /// Where the packet's bytes begin, and how many they are: [`Packet::bytes_mut`] for an engine or a port that goes through many packets and checks
    /// nothing twice. The bytes are there until the packet is changed in another way.
    #[inline(always)]
    pub fn place(&mut self) -> (*mut u8, usize) {
        // `start + len` is within the buffer at all times.
        (self.storage.bytes_mut().as_mut_ptr().wrapping_add(self.start), self.len)
    }

    /// Bytes that can be prepended without moving the packet.
    pub fn headroom(&self) -> usize {
        self.start
    }

    /// Bytes that can be appended without moving the packet or growing its buffer.
    pub fn tailroom(&self) -> usize {
        self.storage.len() - self.start - self.len
    }

    /// Empties the packet and gives it its full headroom back; forgets port, time and mark. Keeps the buffer if it is its own; one on loan goes back.
    #[inline]
    pub fn reset(&mut self) {
        self.give_back();
        self.start = HEADROOM.min(self.storage.len());
        self.len = 0;
        self.ingress_port = PortId(0);
        self.received_at = 0;
        self.came_with = None;
        self.mark = 0;
    }

    /// Replaces the content by a copy of `bytes`, with full headroom. Port and time stay.
    pub fn set_bytes(&mut self, bytes: &[u8]) -> Result<(), PacketTooLong> {
        self.receive_space(bytes.len())?.copy_from_slice(bytes);
        self.len = bytes.len();
        Ok(())
    }

    /// Makes this packet a copy of `other`: bytes, port and time; a copy has no mark.
    pub fn copy_from(&mut self, other: &Packet) {
        // `other` satisfies the length limit, so this cannot fail.
        let _ = self.set_bytes(other.bytes());
        self.ingress_port = other.ingress_port;
        self.received_at = other.received_at;
        self.came_with = other.came_with;
        self.mark = 0;
    }

    /// Empties the packet and lends `capacity` bytes behind the headroom, for a receiver to write into. Call
    /// [`Packet::received`] afterwards with the number of bytes that arrived. The lent bytes hold remains of earlier packets.
    pub fn receive_space(&mut self, capacity: usize) -> Result<&mut [u8], PacketTooLong> {
        if capacity > MAX_LEN {
            return Err(PacketTooLong { wanted: capacity });
        }
        self.len = 0;
        // The bytes are about to be overwritten: a loan that has not even room for them is of no use.
        if self.storage.len() < capacity {
            self.give_back();
        }
        match &self.storage {
            Storage::Loan(loan) => self.start = HEADROOM.min(loan.bytes().len() - capacity),
            Storage::Own(_) => {
                self.grow_buffer(HEADROOM + capacity);
                self.start = HEADROOM;
            }
        }
        Ok(&mut self.storage.bytes_mut()[self.start..self.start + capacity])
    }

    /// Sets the length to `len` bytes, counted from the packet's start. At most the buffer's end and [`MAX_LEN`]: what is
    /// beyond is cut off. Meant for use after [`Packet::receive_space`].
    pub fn received(&mut self, len: usize) {
        self.len = len.min(MAX_LEN).min(self.storage.len() - self.start);
    }

    /// Adds `count` zero bytes in front and returns them to be filled.
    pub fn prepend(&mut self, count: usize) -> Result<&mut [u8], PacketTooLong> {
        self.make_room(count, 0)?;
        self.start -= count;
        self.len += count;
        let added = &mut self.storage.bytes_mut()[self.start..self.start + count];
        added.fill(0);
        Ok(added)
    }

    /// Adds `bytes` at the end.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), PacketTooLong> {
        self.make_room(0, bytes.len())?;
        let end = self.start + self.len;
        self.storage.bytes_mut()[end..end + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
        Ok(())
    }

    /// Removes `count` bytes from the front.
    pub fn trim_front(&mut self, count: usize) -> Result<(), PacketTooShort> {
        if count > self.len {
            return Err(PacketTooShort { wanted: count, len: self.len });
        }
        self.start += count;
        self.len -= count;
        Ok(())
    }

    /// Shortens the packet to at most `len` bytes, cutting at the end.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Replaces the first `removed` bytes (all, if there are fewer) by `headers`: what a deparser does after a parser consumed
    /// `removed` bytes. The rest of the packet does not move while the headroom suffices.
    pub fn replace_front(&mut self, removed: usize, headers: &[u8]) -> Result<(), PacketTooLong> {
        let removed = removed.min(self.len);
        if headers.len() > removed {
            self.make_room(headers.len() - removed, 0)?;
        }
        // Ordered so that it holds for growing and shrinking alike: `make_room` left at least the difference as headroom.
        let payload = self.start + removed;
        self.len = self.len - removed + headers.len();
        self.start = payload - headers.len();
        self.storage.bytes_mut()[self.start..payload].copy_from_slice(headers);
        Ok(())
    }

    /// The whole buffer with the offset and length of the packet in it, for engines that move headers themselves. Set the outcome
    /// with [`Packet::set_bounds`].
    #[inline]
    pub fn whole_buffer_mut(&mut self) -> (&mut [u8], usize, usize) {
        (self.storage.bytes_mut(), self.start, self.len)
    }

    /// Declares that the packet is the `len` bytes at offset `start` of the whole buffer. Refuses bounds outside the buffer and
    /// more than [`MAX_LEN`] bytes; the packet then is as before.
    #[inline]
    pub fn set_bounds(&mut self, start: usize, len: usize) -> Result<(), PacketTooLong> {
        let inside = start.checked_add(len).is_some_and(|end| end <= self.storage.len());
        if !inside || len > MAX_LEN {
            return Err(PacketTooLong { wanted: len });
        }
        self.start = start;
        self.len = len;
        Ok(())
    }

    /// Makes sure that `front` bytes are free before and `back` bytes after the packet, for a packet that will have
    /// `len + front + back` bytes. Moves the packet or grows the buffer if they are not.
    pub fn make_room(&mut self, front: usize, back: usize) -> Result<(), PacketTooLong> {
        let wanted = self.len.saturating_add(front).saturating_add(back);
        if wanted > MAX_LEN {
            return Err(PacketTooLong { wanted });
        }
        if self.headroom() >= front && self.tailroom() >= back {
            return Ok(());
        }
        match &self.storage {
            Storage::Loan(loan) if loan.bytes().len() < wanted => self.move_out(front, back),
            Storage::Loan(loan) => {
                let headroom = HEADROOM.min(loan.bytes().len() - wanted);
                self.move_to(headroom + front);
            }
            // Restores the full headroom in front of what will be prepended, so that this is paid once, not per header.
            Storage::Own(_) => {
                self.grow_buffer(HEADROOM + wanted);
                self.move_to(HEADROOM + front);
            }
        }
        Ok(())
    }

    /// Makes the packet the `len` bytes at offset `start` of a buffer on loan. Its own buffer, or the loan it had, is gone. Port and time stay.
    ///
    /// # Errors
    /// As [`Packet::set_bounds`], and if the buffer is larger than that of the longest packet with its headroom; the loan goes back to its
    /// lender, and the packet is as before.
    #[inline]
    pub fn lend(&mut self, loan: Loan, start: usize, len: usize) -> Result<(), PacketTooLong> {
        let capacity = loan.bytes().len();
        let inside = start.checked_add(len).is_some_and(|end| end <= capacity);
        if !inside || len > MAX_LEN || capacity > HEADROOM + MAX_LEN {
            return Err(PacketTooLong { wanted: len.max(capacity) });
        }
        self.storage = Storage::Loan(loan);
        self.start = start;
        self.len = len;
        Ok(())
    }

    /// If the buffer is on loan from `lender`: takes it out, and gives its token and where the packet is in it (offset and
    /// length). The packet is empty afterwards, without a buffer. `None`, and nothing changes, if the buffer is not this lender's.
    #[inline]
    pub fn reclaim(&mut self, lender: &'static Lender) -> Option<(usize, usize, usize)> {
        let Storage::Loan(loan) = &self.storage else { return None };
        if !loan.is_from(lender) {
            return None;
        }
        let (start, len) = (self.start, self.len);
        (self.start, self.len) = (0, 0);
        match std::mem::take(&mut self.storage) {
            Storage::Loan(loan) => Some((loan.reclaim(lender).ok()?, start, len)),
            Storage::Own(_) => None,
        }
    }

    /// Whether the buffer is on loan.
    pub fn is_on_loan(&self) -> bool {
        matches!(self.storage, Storage::Loan(_))
    }

    /// Gives a buffer on loan back to its lender; the packet is empty then. Otherwise it changes nothing.
    #[inline]
    pub(crate) fn give_back(&mut self) {
        if self.is_on_loan() {
            self.storage = Storage::default();
            (self.start, self.len) = (0, 0);
        }
    }

    /// Moves the packet to offset `start` within its buffer, where it has room.
    fn move_to(&mut self, start: usize) {
        self.storage.bytes_mut().copy_within(self.start..self.start + self.len, start);
        self.start = start;
    }

    /// Moves the packet from its loan to a buffer of its own, with this much room and the full headroom.
    fn move_out(&mut self, front: usize, back: usize) {
        let mut own = Packet::new();
        own.grow_buffer(HEADROOM + front + self.len + back);
        own.start = HEADROOM + front;
        own.len = self.len;
        own.bytes_mut().copy_from_slice(self.bytes());
        (self.storage, self.start) = (own.storage, own.start);
    }

    /// At most `HEADROOM + MAX_LEN` bytes: every caller has checked the packet's length. For packets with a buffer of their own.
    fn grow_buffer(&mut self, size: usize) {
        if let Storage::Own(buffer) = &mut self.storage
            && size_of_val(buffer.as_slice()) < size
        {
            let size = size.next_power_of_two().clamp(FIRST_BUFFER, HEADROOM + MAX_LEN);
            buffer.resize(size.div_ceil(size_of::<Line>()), Line::zeroed());
        }
    }
}

impl Clone for Packet {
    fn clone(&self) -> Packet {
        let mut copy = Packet::new();
        copy.copy_from(self);
        copy
    }
}

/// Equal when bytes, port and time are equal; headroom does not matter.
impl PartialEq for Packet {
    fn eq(&self, other: &Packet) -> bool {
        self.bytes() == other.bytes()
            && self.ingress_port == other.ingress_port
            && self.received_at == other.received_at
    }
}

impl Eq for Packet {}

impl std::fmt::Debug for Packet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Packet({} at {} ns, {} bytes:", self.ingress_port, self.received_at, self.len)?;
        for byte in self.bytes().iter().take(64) {
            write!(f, " {byte:02x}")?;
        }
        write!(f, "{})", if self.len > 64 { " ..." } else { "" })
    }
}
