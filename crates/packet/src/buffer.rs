//! [`Packet`]: the bytes of one packet with room in front and behind.

use crate::PortId;
use thiserror::Error;

/// The longest packet, in bytes, from the first byte of the Ethernet header and without the frame check sequence.
/// A jumbo frame (9216 bytes) with several layers of encapsulation fits.
pub const MAX_LEN: usize = 16 * 1024;

/// Bytes kept free in front of a received packet: VXLAN over IPv6 with two VLAN tags needs 78, and a bridge header
/// between tiers comes on top of that.
pub const HEADROOM: usize = 256;

/// The size in bytes of a buffer when it is first used; holds a packet of the usual 1500-byte MTU. Grows on demand.
const FIRST_BUFFER: usize = 2048;

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
/// No method panics whatever lengths it is given.
#[derive(Default)]
pub struct Packet {
    /// All bytes, always initialised; its length is the capacity of the packet. Empty until first used.
    buffer: Vec<u8>,
    /// Offset of the first byte of the packet; `start + len <= buffer.len()`.
    start: usize,
    len: usize,
    /// The port on which the packet arrived.
    pub ingress_port: PortId,
    /// When it arrived, in nanoseconds since the Unix epoch (for a capture file: the record's time; in tests: any clock).
    pub received_at: u64,
}

impl Packet {
    /// An empty packet without a buffer; the buffer is allocated on first use.
    pub const fn new() -> Packet {
        Packet { buffer: Vec::new(), start: 0, len: 0, ingress_port: PortId(0), received_at: 0 }
    }

    /// A packet that holds a copy of `bytes`, with [`HEADROOM`] bytes in front.
    pub fn from_bytes(bytes: &[u8]) -> Result<Packet, PacketTooLong> {
        let mut packet = Packet::new();
        packet.set_bytes(bytes)?;
        Ok(packet)
    }

    /// The length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the packet has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The packet's bytes, from the first of the Ethernet header.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.start + self.len]
    }

    /// The packet's bytes, to be rewritten in place.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.buffer[self.start..self.start + self.len]
    }

    /// Bytes that can be prepended without moving the packet.
    pub fn headroom(&self) -> usize {
        self.start
    }

    /// Bytes that can be appended without moving the packet or growing its buffer.
    pub fn tailroom(&self) -> usize {
        self.buffer.len() - self.start - self.len
    }

    /// Empties the packet and gives it its full headroom back; forgets port and time. Keeps the buffer.
    pub fn reset(&mut self) {
        self.start = HEADROOM.min(self.buffer.len());
        self.len = 0;
        self.ingress_port = PortId(0);
        self.received_at = 0;
    }

    /// Replaces the content by a copy of `bytes`, with full headroom. Port and time stay.
    pub fn set_bytes(&mut self, bytes: &[u8]) -> Result<(), PacketTooLong> {
        self.receive_space(bytes.len())?.copy_from_slice(bytes);
        self.len = bytes.len();
        Ok(())
    }

    /// Makes this packet a copy of `other`: bytes, port and time.
    pub fn copy_from(&mut self, other: &Packet) {
        // `other` satisfies the length limit, so this cannot fail.
        let _ = self.set_bytes(other.bytes());
        self.ingress_port = other.ingress_port;
        self.received_at = other.received_at;
    }

    /// Empties the packet and lends `capacity` bytes behind the headroom, for a receiver to write into. Call
    /// [`Packet::received`] afterwards with the number of bytes that arrived. The lent bytes hold remains of earlier packets.
    pub fn receive_space(&mut self, capacity: usize) -> Result<&mut [u8], PacketTooLong> {
        if capacity > MAX_LEN {
            return Err(PacketTooLong { wanted: capacity });
        }
        self.len = 0;
        self.grow_buffer(HEADROOM + capacity);
        self.start = HEADROOM;
        Ok(&mut self.buffer[HEADROOM..HEADROOM + capacity])
    }

    /// Sets the length to `len` bytes, counted from the packet's start. At most the buffer's end and [`MAX_LEN`]: what is
    /// beyond is cut off. Meant for use after [`Packet::receive_space`].
    pub fn received(&mut self, len: usize) {
        self.len = len.min(MAX_LEN).min(self.buffer.len() - self.start);
    }

    /// Adds `count` zero bytes in front and returns them to be filled.
    pub fn prepend(&mut self, count: usize) -> Result<&mut [u8], PacketTooLong> {
        self.make_room(count, 0)?;
        self.start -= count;
        self.len += count;
        let added = &mut self.buffer[self.start..self.start + count];
        added.fill(0);
        Ok(added)
    }

    /// Adds `bytes` at the end.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), PacketTooLong> {
        self.make_room(0, bytes.len())?;
        let end = self.start + self.len;
        self.buffer[end..end + bytes.len()].copy_from_slice(bytes);
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
        self.buffer[self.start..payload].copy_from_slice(headers);
        Ok(())
    }

    /// The whole buffer with the offset and length of the packet in it, for engines that move headers themselves. Set the outcome
    /// with [`Packet::set_bounds`].
    pub fn whole_buffer_mut(&mut self) -> (&mut [u8], usize, usize) {
        (&mut self.buffer, self.start, self.len)
    }

    /// Declares that the packet is the `len` bytes at offset `start` of the whole buffer. Refuses bounds outside the buffer and
    /// more than [`MAX_LEN`] bytes; the packet then is as before.
    pub fn set_bounds(&mut self, start: usize, len: usize) -> Result<(), PacketTooLong> {
        let inside = start.checked_add(len).is_some_and(|end| end <= self.buffer.len());
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
        // Restores the full headroom in front of what will be prepended, so that this is paid once, not per header.
        self.grow_buffer(HEADROOM + wanted);
        let start = HEADROOM + front;
        self.buffer.copy_within(self.start..self.start + self.len, start);
        self.start = start;
        Ok(())
    }

    /// At most `HEADROOM + MAX_LEN` bytes: every caller has checked the packet's length.
    fn grow_buffer(&mut self, size: usize) {
        if self.buffer.len() < size {
            let size = size.next_power_of_two().clamp(FIRST_BUFFER, HEADROOM + MAX_LEN);
            self.buffer.resize(size, 0);
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
