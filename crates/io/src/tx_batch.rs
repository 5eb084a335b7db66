//! [`TxBatch`]: a batch of packets to send on one port.

use packet::{Packet, PacketRef};

/// Placeholder for a missing packet.
static NO_PACKET: Packet = Packet::new();

/// A packet queued for one port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TxItem {
    /// The packet within the batch.
    pub(crate) packet: PacketRef,
    /// Whether this is the packet's last transmission, so that its buffer can be taken.
    pub(crate) last: bool,
}

/// Packets to send on one port, in order.
///
/// One packet can be sent several times, on several ports (multicast). Its buffer can be taken at
/// its last transmission. A port that passes buffers to a device calls [`TxBatch::take`]; every
/// other port reads.
pub struct TxBatch<'a>(TxSource<'a>);

enum TxSource<'a> {
    /// Packets of a batch and its generated packets, as the engine's verdicts queue them.
    Departures { batch: &'a mut [Packet], extras: &'a mut [Packet], queue: &'a [TxItem] },
    /// Packets that are each sent once.
    Own(&'a mut [Packet]),
    /// Read-only packets.
    Shared(&'a [&'a Packet]),
}

impl<'a> TxBatch<'a> {
    /// Creates a batch that sends each packet once. A port can take their buffers, which leaves
    /// them empty.
    pub fn of(packets: &'a mut [Packet]) -> TxBatch<'a> {
        TxBatch(TxSource::Own(packets))
    }

    /// Creates a batch of read-only packets.
    pub fn copies_of(packets: &'a [&'a Packet]) -> TxBatch<'a> {
        TxBatch(TxSource::Shared(packets))
    }

    pub(crate) fn departures(batch: &'a mut [Packet], extras: &'a mut [Packet], queue: &'a [TxItem]) -> TxBatch<'a> {
        TxBatch(TxSource::Departures { batch, extras, queue })
    }

    /// Returns the number of packets.
    pub fn len(&self) -> usize {
        match &self.0 {
            TxSource::Departures { queue, .. } => queue.len(),
            TxSource::Own(packets) => packets.len(),
            TxSource::Shared(packets) => packets.len(),
        }
    }

    /// Returns whether the batch is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the packet of this index. It is empty if the index is out of range or its buffer was
    /// taken.
    pub fn get(&self, index: usize) -> &Packet {
        let packet = match &self.0 {
            TxSource::Departures { batch, extras, queue } => queue.get(index).and_then(|item| match item.packet {
                PacketRef::Input(index) => batch.get(usize::from(index)),
                PacketRef::Generated(index) => extras.get(usize::from(index)),
            }),
            TxSource::Own(packets) => packets.get(index),
            TxSource::Shared(packets) => packets.get(index).copied(),
        };
        packet.unwrap_or(&NO_PACKET)
    }

    /// Returns the packet of this index if this is its last transmission, so that its buffer can be
    /// taken. `None` if the packet is sent again later or must not be changed.
    pub fn take(&mut self, index: usize) -> Option<&mut Packet> {
        match &mut self.0 {
            TxSource::Departures { batch, extras, queue } => {
                let item = queue.get(index).filter(|item| item.last)?;
                match item.packet {
                    PacketRef::Input(index) => batch.get_mut(usize::from(index)),
                    PacketRef::Generated(index) => extras.get_mut(usize::from(index)),
                }
            }
            TxSource::Own(packets) => packets.get_mut(index),
            TxSource::Shared(_) => None,
        }
    }

    /// Iterates over all packets in order.
    pub fn iter(&self) -> impl Iterator<Item = &Packet> {
        (0..self.len()).map(|index| self.get(index))
    }
}
