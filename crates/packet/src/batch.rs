//! [`Batch`]: the unit of work of an engine.

use crate::{Packet, PacketRef, PacketTooLong, PortId};
use thiserror::Error;

/// The most packets in a batch: each batch waits for memory a few times while there is nothing else to do, which many packets share.
pub const MAX_BATCH: usize = 512;

/// The batch holds as many packets as it can; process it first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the batch is full ({capacity} packets)")]
pub struct BatchFull {
    /// How many packets it holds.
    pub capacity: usize,
}

/// Why a packet was not added to a batch. The batch is as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum PushError {
    /// No room for another packet.
    #[error(transparent)]
    Full(#[from] BatchFull),
    /// The packet is longer than a packet can be.
    #[error(transparent)]
    TooLong(#[from] PacketTooLong),
}

/// Slots for packets whose buffers outlive the packets in them.
///
/// The first `live` slots hold packets, the others wait with their buffers to be used again.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    packets: Vec<Packet>,
    live: usize,
}

impl Slots {
    /// The next slot, emptied. The caller bounds the number of slots.
    pub(crate) fn next(&mut self) -> &mut Packet {
        if self.live == self.packets.len() {
            self.packets.push(Packet::new());
        }
        let slot = &mut self.packets[self.live];
        slot.reset();
        self.live += 1;
        slot
    }

    pub(crate) fn as_slice(&self) -> &[Packet] {
        &self.packets[..self.live]
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [Packet] {
        &mut self.packets[..self.live]
    }

    /// Buffers on loan go back now: their lender may be waiting for them.
    pub(crate) fn truncate(&mut self, live: usize) {
        for packet in self.packets[..self.live].iter_mut().skip(live) {
            packet.give_back();
        }
        self.live = self.live.min(live);
    }
}

/// Up to [`MAX_BATCH`] packets that an engine processes together.
///
/// Clearing a batch keeps the buffers that are its own: after the first few batches nothing is allocated.
#[derive(Debug)]
pub struct Batch {
    slots: Slots,
    capacity: usize,
}

impl Default for Batch {
    fn default() -> Batch {
        Batch::new()
    }
}

impl Batch {
    /// An empty batch for [`MAX_BATCH`] packets.
    pub fn new() -> Batch {
        Batch::with_capacity(MAX_BATCH)
    }

    /// An empty batch for `capacity` packets, which is brought into `1..=MAX_BATCH`.
    pub fn with_capacity(capacity: usize) -> Batch {
        Batch { slots: Slots::default(), capacity: capacity.clamp(1, MAX_BATCH) }
    }

    /// How many packets it can hold.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Holds at most `capacity` packets from now on, which is brought into `1..=MAX_BATCH`, and is not less than those that it has.
    pub fn set_capacity(&mut self, capacity: usize) {
        self.capacity = capacity.clamp(1, MAX_BATCH).max(self.len());
    }

    /// How many packets it holds.
    pub fn len(&self) -> usize {
        self.slots.live
    }

    /// Whether it holds no packet.
    pub fn is_empty(&self) -> bool {
        self.slots.live == 0
    }

    /// How many more packets it can take.
    pub fn room(&self) -> usize {
        self.capacity - self.len()
    }

    /// Adds an empty packet and returns it, to be received into.
    pub fn push(&mut self) -> Result<&mut Packet, BatchFull> {
        if self.room() == 0 {
            return Err(BatchFull { capacity: self.capacity });
        }
        Ok(self.slots.next())
    }

    /// Adds a copy of `bytes` as a packet that arrived on `port` at `received_at` nanoseconds.
    pub fn push_bytes(&mut self, bytes: &[u8], port: PortId, received_at: u64) -> Result<(), PushError> {
        let before = self.len();
        let slot = self.push()?;
        slot.ingress_port = port;
        slot.received_at = received_at;
        if let Err(error) = slot.set_bytes(bytes) {
            self.truncate(before);
            return Err(error.into());
        }
        Ok(())
    }

    /// Adds `packet` by exchanging buffers with an unused slot: no bytes are copied. `packet` is left empty.
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

    /// Removes all packets and keeps their buffers; those on loan go back.
    pub fn clear(&mut self) {
        self.truncate(0);
    }

    /// The packets in their order of arrival.
    pub fn packets(&self) -> &[Packet] {
        self.slots.as_slice()
    }

    /// The packets, to be rewritten in place.
    pub fn packets_mut(&mut self) -> &mut [Packet] {
        self.slots.as_mut_slice()
    }

    /// The packets with the reference by which an [`crate::Output`] names each.
    pub fn indexed(&self) -> impl Iterator<Item = (PacketRef, &Packet)> {
        self.packets().iter().enumerate().map(|(index, packet)| (PacketRef::Input(index as u16), packet))
    }

    /// As [`Batch::indexed`], to be rewritten in place.
    pub fn indexed_mut(&mut self) -> impl Iterator<Item = (PacketRef, &mut Packet)> {
        self.packets_mut().iter_mut().enumerate().map(|(index, packet)| (PacketRef::Input(index as u16), packet))
    }
}
