//! Packet batches: the unit of work of an engine.

use crate::{Packet, PacketRef, PacketTooLong, PortId};
use thiserror::Error;

/// Maximum number of packets in a batch. A batch is large because its packets share the few memory
/// stalls that nothing else can hide.
pub const MAX_BATCH: usize = 512;

/// Error: the batch is at its capacity. Process it first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the batch is full ({capacity} packets)")]
pub struct BatchFull {
    /// Maximum number of packets in the batch.
    pub capacity: usize,
}

/// Error of adding a packet to a batch. The batch is unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum PushError {
    /// The batch is full.
    #[error(transparent)]
    Full(#[from] BatchFull),
    /// The packet is longer than [`crate::MAX_LEN`].
    #[error(transparent)]
    TooLong(#[from] PacketTooLong),
}

/// Pool of packet buffers that outlive the packets in them.
///
/// The first `live` slots hold packets. The other slots keep their buffers for reuse.
#[derive(Debug, Default)]
pub struct PacketPool {
    packets: Vec<Packet>,
    live: usize,
}

impl PacketPool {
    /// Returns the next slot, emptied. The caller bounds the number of slots.
    pub fn push_empty(&mut self) -> &mut Packet {
        if self.live == self.packets.len() {
            self.packets.push(Packet::new());
        }
        let slot = &mut self.packets[self.live];
        slot.reset();
        self.live += 1;
        slot
    }

    /// Returns the packets.
    pub fn as_slice(&self) -> &[Packet] {
        &self.packets[..self.live]
    }

    /// Returns the packets for rewriting in place.
    pub fn as_mut_slice(&mut self) -> &mut [Packet] {
        &mut self.packets[..self.live]
    }

    /// Keeps the first `live` packets. External buffers of the others are released at once, because
    /// their owner may be waiting for them.
    pub fn truncate(&mut self, live: usize) {
        for packet in self.packets[..self.live].iter_mut().skip(live) {
            packet.release_external();
        }
        self.live = self.live.min(live);
    }
}

/// Up to [`MAX_BATCH`] packets that an engine processes together.
///
/// Clearing a batch keeps its owned buffers, so nothing is allocated after the first few batches.
#[derive(Debug)]
pub struct Batch {
    slots: PacketPool,
    capacity: usize,
}

impl Default for Batch {
    fn default() -> Batch {
        Batch::new()
    }
}

impl Batch {
    /// Creates an empty batch for [`MAX_BATCH`] packets.
    pub fn new() -> Batch {
        Batch::with_capacity(MAX_BATCH)
    }

    /// Creates an empty batch for `capacity` packets, clamped to `1..=MAX_BATCH`.
    pub fn with_capacity(capacity: usize) -> Batch {
        Batch { slots: PacketPool::default(), capacity: capacity.clamp(1, MAX_BATCH) }
    }

    /// Returns the maximum number of packets in the batch.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Sets the capacity to `capacity` packets, clamped to `1..=MAX_BATCH`, but not below the
    /// current number of packets.
    pub fn set_capacity(&mut self, capacity: usize) {
        self.capacity = capacity.clamp(1, MAX_BATCH).max(self.len());
    }

    /// Returns the number of packets in the batch.
    pub fn len(&self) -> usize {
        self.slots.live
    }

    /// Reports whether the batch holds no packet.
    pub fn is_empty(&self) -> bool {
        self.slots.live == 0
    }

    /// Returns the number of packets that can still be added.
    pub fn remaining_capacity(&self) -> usize {
        self.capacity - self.len()
    }

    /// Adds an empty packet and returns it, for a receiver to fill.
    pub fn push(&mut self) -> Result<&mut Packet, BatchFull> {
        if self.remaining_capacity() == 0 {
            return Err(BatchFull { capacity: self.capacity });
        }
        Ok(self.slots.push_empty())
    }

    /// Adds a copy of `bytes` as a packet that arrived on `port` at `received_at` nanoseconds.
    pub fn push_bytes(&mut self, bytes: &[u8], port: PortId, received_at: u64) -> Result<(), PushError> {
        let before = self.len();
        let slot = self.push()?;
        slot.ingress_port = port;
        slot.rx_time_ns = received_at;
        if let Err(error) = slot.set_bytes(bytes) {
            self.truncate(before);
            return Err(error.into());
        }
        Ok(())
    }

    /// Adds `packet` by exchanging buffers with an unused slot, without copying bytes. `packet` is
    /// left empty.
    pub fn push_swap(&mut self, packet: &mut Packet) -> Result<(), BatchFull> {
        let slot = self.push()?;
        std::mem::swap(slot, packet);
        packet.reset();
        Ok(())
    }

    /// Keeps only the first `len` packets.
    pub fn truncate(&mut self, len: usize) {
        self.slots.truncate(len);
    }

    /// Removes all packets. Owned buffers are kept; external buffers are released to their owners.
    pub fn clear(&mut self) {
        self.truncate(0);
    }

    /// Returns the packets in their order of arrival.
    pub fn packets(&self) -> &[Packet] {
        self.slots.as_slice()
    }

    /// Returns the packets for rewriting in place.
    pub fn packets_mut(&mut self) -> &mut [Packet] {
        self.slots.as_mut_slice()
    }

    /// Iterates over the packets, each with the reference that names it in a
    /// [`crate::BatchOutput`].
    pub fn indexed(&self) -> impl Iterator<Item = (PacketRef, &Packet)> {
        self.packets().iter().enumerate().map(|(index, packet)| (PacketRef::Input(index as u16), packet))
    }

    /// Iterates over the packets for rewriting in place, each with its reference as in
    /// [`Batch::indexed`].
    pub fn indexed_mut(&mut self) -> impl Iterator<Item = (PacketRef, &mut Packet)> {
        self.packets_mut().iter_mut().enumerate().map(|(index, packet)| (PacketRef::Input(index as u16), packet))
    }
}
