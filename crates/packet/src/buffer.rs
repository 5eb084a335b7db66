//! Packet buffers: the bytes of one packet with headroom and tailroom.

use crate::{ExternalBuf, ExternalBufOwner, Offload, PortId};
use bytemuck::{Pod, Zeroable};
use thiserror::Error;

/// Maximum packet length in bytes, from the first byte of the Ethernet header and without the frame
/// check sequence. A super-frame ([`Offload`]) that the kernel builds fits. The limit costs nothing
/// by itself: a buffer grows only for a packet that needs it.
pub const MAX_LEN: usize = u16::MAX as usize;

/// Maximum length in bytes of a packet on a wire: of every packet that is no super-frame. A jumbo
/// frame (9216 bytes) with several layers of encapsulation fits.
pub const MAX_WIRE_LEN: usize = 16 * 1024;

/// Headroom of a received packet in bytes. VXLAN over IPv6 with two VLAN tags needs 78 bytes, and a
/// bridge header between tiers comes in addition. An external buffer can have less: DPDK drivers
/// leave 128.
pub const HEADROOM: usize = 256;

/// Initial size of an owned buffer in bytes; it holds a packet of the usual 1500-byte MTU and grows
/// on demand. Together with the allocator's prefix, the size is an odd number of cache lines and no
/// power of two, because otherwise the first lines of all packets of a batch would share a few sets
/// of the L1 cache.
const INITIAL_BUFFER_BYTES: usize = 2048 + 128;

/// Error: a packet would have become longer than [`MAX_LEN`]. The packet is unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a packet of {wanted} bytes is longer than the maximum of {MAX_LEN} bytes")]
pub struct PacketTooLong {
    /// The requested length in bytes (saturates).
    pub wanted: usize,
}

/// Error: more bytes were to be removed than the packet has. The packet is unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("cannot remove {wanted} bytes from the front of a packet of {len} bytes")]
pub struct PacketTooShort {
    /// The number of bytes to remove.
    pub wanted: usize,
    /// The packet's length in bytes.
    pub len: usize,
}

/// One packet: its bytes and the metadata of its arrival.
///
/// The bytes are one contiguous range of a larger buffer: `headroom | bytes | tailroom`. Headers
/// are added and removed at the front by moving the start of the range. The bytes themselves move
/// only when the headroom is used up. The buffer never shrinks, so a reused packet allocates
/// nothing.
///
/// The buffer is owned, or belongs to a port's driver ([`Packet::attach_external`]). Both behave
/// alike: a packet that outgrows its external buffer moves to an owned one, and the external buffer
/// is released to its owner.
///
/// No method panics, for any length.
#[derive(Default)]
pub struct Packet {
    /// The buffer that contains the bytes.
    storage: PacketStorage,
    /// Offset of the first byte of the packet; `start + len` is at most the buffer's length.
    start: usize,
    len: usize,
    /// The port on which the packet arrived.
    pub ingress_port: PortId,
    /// Arrival time in nanoseconds since the Unix epoch (from a capture file: the record's time; in
    /// tests: any clock).
    pub rx_time_ns: u64,
    /// Length in bytes that meters and counters use; `None`: the packet's own length. It is set for
    /// a packet that arrives with a bridge header, because its length at the first tier must be
    /// counted.
    pub metered_len_bytes: Option<u32>,
    /// Trace id that identifies the packet across tiers; 0 if the packet is not traced. It is
    /// assigned by the caller of the engine, never by the network.
    pub trace_id: u16,
    /// Work that remains before the packet can be on a wire. It follows the packet through an
    /// engine, which may change all headers, and a port or its runner does it on sending.
    pub offload: Offload,
}

/// The buffer of a packet. All bytes are always initialised; their number is the capacity of the
/// packet.
enum PacketStorage {
    /// Empty until first used.
    Owned(Vec<CacheLine>),
    External(ExternalBuf),
}

/// A cache line. Owned buffers start at a cache line, as a port's buffers do, because an unaligned
/// packet occupies one more line.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
struct CacheLine([u8; 64]);

const _: () = assert!(HEADROOM.is_multiple_of(size_of::<CacheLine>()));

impl Default for PacketStorage {
    fn default() -> PacketStorage {
        PacketStorage::Owned(Vec::new())
    }
}

impl PacketStorage {
    #[inline]
    fn bytes(&self) -> &[u8] {
        match self {
            PacketStorage::Owned(buffer) => bytemuck::must_cast_slice(buffer),
            PacketStorage::External(external) => external.bytes(),
        }
    }

    #[inline]
    fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            PacketStorage::Owned(buffer) => bytemuck::must_cast_slice_mut(buffer),
            PacketStorage::External(external) => external.bytes_mut(),
        }
    }

    fn len(&self) -> usize {
        self.bytes().len()
    }
}

impl Packet {
    /// Creates an empty packet without a buffer; the buffer is allocated on first use.
    pub const fn new() -> Packet {
        Packet {
            storage: PacketStorage::Owned(Vec::new()),
            start: 0,
            len: 0,
            ingress_port: PortId(0),
            rx_time_ns: 0,
            metered_len_bytes: None,
            trace_id: 0,
            offload: Offload::NONE,
        }
    }

    /// Creates a packet that holds a copy of `bytes`, with [`HEADROOM`] bytes of headroom.
    pub fn from_bytes(bytes: &[u8]) -> Result<Packet, PacketTooLong> {
        let mut packet = Packet::new();
        packet.set_bytes(bytes)?;
        Ok(packet)
    }

    /// Returns the length in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Reports whether the packet has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the packet's bytes, from the first byte of the Ethernet header.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.storage.bytes()[self.start..self.start + self.len]
    }

    /// Returns the packet's bytes for rewriting in place.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.storage.bytes_mut()[self.start..self.start + self.len]
    }

    /// Returns a pointer to the packet's bytes and their number: [`Packet::bytes_mut`] without
    /// bounds checks, for an engine or a port that handles many packets. The pointer is valid until
    /// the packet is changed by another method.
    #[inline(always)]
    pub fn as_mut_ptr_len(&mut self) -> (*mut u8, usize) {
        // `start + len` is within the buffer at all times.
        (self.storage.bytes_mut().as_mut_ptr().wrapping_add(self.start), self.len)
    }

    /// Returns the number of bytes that can be prepended without moving the packet.
    pub fn headroom(&self) -> usize {
        self.start
    }

    /// Returns the number of bytes that can be appended without moving the packet or growing its
    /// buffer.
    pub fn tailroom(&self) -> usize {
        self.storage.len() - self.start - self.len
    }

    /// Empties the packet, restores its full headroom, and clears port, time, trace id and offload.
    /// An owned buffer is kept; an external buffer is released.
    #[inline]
    pub fn reset(&mut self) {
        self.release_external();
        self.start = HEADROOM.min(self.storage.len());
        self.len = 0;
        self.ingress_port = PortId(0);
        self.rx_time_ns = 0;
        self.metered_len_bytes = None;
        self.trace_id = 0;
        self.offload = Offload::NONE;
    }

    /// Replaces the content by a copy of `bytes`, with full headroom. Port, time and offload are
    /// unchanged.
    pub fn set_bytes(&mut self, bytes: &[u8]) -> Result<(), PacketTooLong> {
        self.receive_space(bytes.len())?.copy_from_slice(bytes);
        self.len = bytes.len();
        Ok(())
    }

    /// Makes this packet a copy of `other`: bytes, port, time and offload. The copy has no trace
    /// id.
    pub fn copy_from(&mut self, other: &Packet) {
        // `other` satisfies the length limit, so this cannot fail.
        let _ = self.set_bytes(other.bytes());
        self.ingress_port = other.ingress_port;
        self.rx_time_ns = other.rx_time_ns;
        self.metered_len_bytes = other.metered_len_bytes;
        self.trace_id = 0;
        self.offload = other.offload;
    }

    /// Empties the packet and returns `capacity` bytes after the headroom, for a receiver to write
    /// into. Call [`Packet::set_received_len`] afterwards with the number of bytes that arrived.
    /// The returned bytes hold data of earlier packets.
    pub fn receive_space(&mut self, capacity: usize) -> Result<&mut [u8], PacketTooLong> {
        if capacity > MAX_LEN {
            return Err(PacketTooLong { wanted: capacity });
        }
        self.len = 0;
        // The bytes are about to be overwritten, so an external buffer that is too small for them
        // is released.
        if self.storage.len() < capacity {
            self.release_external();
        }
        match &self.storage {
            PacketStorage::External(external) => self.start = HEADROOM.min(external.bytes().len() - capacity),
            PacketStorage::Owned(_) => {
                self.grow_buffer(HEADROOM + capacity);
                self.start = HEADROOM;
            }
        }
        Ok(&mut self.storage.bytes_mut()[self.start..self.start + capacity])
    }

    /// Sets the length to `len` bytes, counted from the packet's start, limited by the buffer's end
    /// and [`MAX_LEN`]. For use after [`Packet::receive_space`].
    pub fn set_received_len(&mut self, len: usize) {
        self.len = len.min(MAX_LEN).min(self.storage.len() - self.start);
    }

    /// Adds `count` zero bytes at the front and returns them for filling.
    pub fn prepend(&mut self, count: usize) -> Result<&mut [u8], PacketTooLong> {
        self.reserve(count, 0)?;
        self.start -= count;
        self.len += count;
        let added = &mut self.storage.bytes_mut()[self.start..self.start + count];
        added.fill(0);
        Ok(added)
    }

    /// Adds `bytes` at the end.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), PacketTooLong> {
        self.reserve(0, bytes.len())?;
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

    /// Shortens the packet to at most `len` bytes, cutting at the end. A packet that becomes
    /// shorter has no offload any more, because a checksum over missing bytes cannot be completed.
    pub fn truncate(&mut self, len: usize) {
        if len < self.len {
            self.len = len;
            self.offload = Offload::NONE;
        }
    }

    /// Returns the length in bytes of the longest packet that leaves on a wire for this one: its
    /// own length, or that of a super-frame's longest segment.
    #[inline]
    pub fn wire_len(&self) -> usize {
        self.len.saturating_sub(usize::from(self.offload.segment_excess))
    }

    /// Replaces the first `removed` bytes (all, if there are fewer) by `headers`, as a deparser
    /// does after a parser consumed `removed` bytes. The remaining bytes do not move while the
    /// headroom suffices.
    pub fn replace_front(&mut self, removed: usize, headers: &[u8]) -> Result<(), PacketTooLong> {
        let removed = removed.min(self.len);
        if headers.len() > removed {
            self.reserve(headers.len() - removed, 0)?;
        }
        // This order works for growing and shrinking, because `reserve` left at least the
        // difference as headroom.
        let payload = self.start + removed;
        self.len = self.len - removed + headers.len();
        self.start = payload - headers.len();
        self.storage.bytes_mut()[self.start..payload].copy_from_slice(headers);
        Ok(())
    }

    /// Returns the whole buffer with the offset and length of the packet in it, for engines that
    /// move headers themselves. Set the new bounds with [`Packet::set_bounds`].
    #[inline]
    pub fn whole_buffer_mut(&mut self) -> (&mut [u8], usize, usize) {
        (self.storage.bytes_mut(), self.start, self.len)
    }

    /// Sets the packet to the `len` bytes at offset `start` of the whole buffer. Fails for bounds
    /// outside the buffer and for more than [`MAX_LEN`] bytes; the packet is then unchanged.
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

    /// Ensures `front` free bytes before and `back` free bytes after the packet, for a packet that
    /// will have `len + front + back` bytes. Moves the packet or grows the buffer if necessary.
    pub fn reserve(&mut self, front: usize, back: usize) -> Result<(), PacketTooLong> {
        let wanted = self.len.saturating_add(front).saturating_add(back);
        if wanted > MAX_LEN {
            return Err(PacketTooLong { wanted });
        }
        if self.headroom() >= front && self.tailroom() >= back {
            return Ok(());
        }
        match &self.storage {
            PacketStorage::External(external) if external.bytes().len() < wanted => {
                self.move_to_owned_buffer(front, back)
            }
            PacketStorage::External(external) => {
                let headroom = HEADROOM.min(external.bytes().len() - wanted);
                self.move_within_buffer(headroom + front);
            }
            // Restores the full headroom before the bytes to be prepended, so that the move happens
            // once, not per header.
            PacketStorage::Owned(_) => {
                self.grow_buffer(HEADROOM + wanted);
                self.move_within_buffer(HEADROOM + front);
            }
        }
        Ok(())
    }

    /// Makes the packet the `len` bytes at offset `start` of an external buffer. The previous
    /// buffer is dropped or released. Port and time are unchanged.
    ///
    /// # Errors
    /// Fails as [`Packet::set_bounds`] does, and if the buffer is larger than that of the longest
    /// packet with its headroom. The external buffer is then released to its owner, and the packet
    /// is unchanged.
    #[inline]
    pub fn attach_external(&mut self, external: ExternalBuf, start: usize, len: usize) -> Result<(), PacketTooLong> {
        let capacity = external.bytes().len();
        let inside = start.checked_add(len).is_some_and(|end| end <= capacity);
        if !inside || len > MAX_LEN || capacity > HEADROOM + MAX_LEN {
            return Err(PacketTooLong { wanted: len.max(capacity) });
        }
        self.storage = PacketStorage::External(external);
        self.start = start;
        self.len = len;
        Ok(())
    }

    /// Takes the external buffer out of the packet if it belongs to `owner`: returns its token and
    /// the offset and length of the packet in it. The packet is then empty, without a buffer.
    /// Returns `None` and changes nothing if the buffer does not belong to `owner`.
    #[inline]
    pub fn take_external_token(&mut self, owner: &'static ExternalBufOwner) -> Option<(usize, usize, usize)> {
        let PacketStorage::External(external) = &self.storage else { return None };
        if !external.is_owned_by(owner) {
            return None;
        }
        let (start, len) = (self.start, self.len);
        (self.start, self.len) = (0, 0);
        match std::mem::take(&mut self.storage) {
            PacketStorage::External(external) => Some((external.take_token(owner).ok()?, start, len)),
            PacketStorage::Owned(_) => None,
        }
    }

    /// Reports whether the buffer is external.
    pub fn is_external(&self) -> bool {
        matches!(self.storage, PacketStorage::External(_))
    }

    /// Releases an external buffer to its owner; the packet is then empty. Does nothing for an
    /// owned buffer.
    #[inline]
    pub(crate) fn release_external(&mut self) {
        if self.is_external() {
            self.storage = PacketStorage::default();
            (self.start, self.len) = (0, 0);
        }
    }

    /// Moves the packet to offset `start` within its buffer. The caller ensures that it fits there.
    fn move_within_buffer(&mut self, start: usize) {
        self.storage.bytes_mut().copy_within(self.start..self.start + self.len, start);
        self.start = start;
    }

    /// Moves the packet from its external buffer to an owned one, with `front` and `back` free
    /// bytes and the full headroom.
    fn move_to_owned_buffer(&mut self, front: usize, back: usize) {
        let mut own = Packet::new();
        own.grow_buffer(HEADROOM + front + self.len + back);
        own.start = HEADROOM + front;
        own.len = self.len;
        own.bytes_mut().copy_from_slice(self.bytes());
        (self.storage, self.start) = (own.storage, own.start);
    }

    /// Grows an owned buffer to `size` bytes, at most `HEADROOM + MAX_LEN`, because every caller
    /// has checked the packet's length.
    fn grow_buffer(&mut self, size: usize) {
        if let PacketStorage::Owned(buffer) = &mut self.storage
            && size_of_val(buffer.as_slice()) < size
        {
            let size = size.next_power_of_two().clamp(INITIAL_BUFFER_BYTES, HEADROOM + MAX_LEN);
            buffer.resize(size.div_ceil(size_of::<CacheLine>()), CacheLine::zeroed());
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

/// Compares bytes, port and time; headroom does not matter.
impl PartialEq for Packet {
    fn eq(&self, other: &Packet) -> bool {
        self.bytes() == other.bytes() && self.ingress_port == other.ingress_port && self.rx_time_ns == other.rx_time_ns
    }
}

impl Eq for Packet {}

impl std::fmt::Debug for Packet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Packet({} at {} ns, {} bytes:", self.ingress_port, self.rx_time_ns, self.len)?;
        for byte in self.bytes().iter().take(64) {
            write!(f, " {byte:02x}")?;
        }
        write!(f, "{})", if self.len > 64 { " ..." } else { "" })
    }
}
