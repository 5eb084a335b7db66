//! [`Outgoing`]: what a port is given to send.

use packet::{Packet, PacketRef};

/// Stands for a packet that is not there.
static NO_PACKET: Packet = Packet::new();

/// A packet that leaves on a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Departure {
    /// Which packet of the batch.
    pub(crate) packet: PacketRef,
    /// Nobody needs the packet any more after this.
    pub(crate) last: bool,
}

/// Packets to be sent on one port, in order.
///
/// One packet can leave several times, on several ports (multicast). Its buffer can be had where it leaves for the last time:
/// a port that can hand the buffer itself to the device asks with [`Outgoing::take`]; every other port reads.
pub struct Outgoing<'a>(Source<'a>);

enum Source<'a> {
    /// From what an engine said about a batch.
    Departures { batch: &'a mut [Packet], extras: &'a mut [Packet], queue: &'a [Departure] },
    /// Each leaves once.
    Own(&'a mut [Packet]),
    /// To be read only.
    Shared(&'a [&'a Packet]),
}

impl<'a> Outgoing<'a> {
    /// These packets, each once; a port may take their buffers, and then they are empty.
    pub fn of(packets: &'a mut [Packet]) -> Outgoing<'a> {
        Outgoing(Source::Own(packets))
    }

    /// These packets, which stay as they are.
    pub fn copies_of(packets: &'a [&'a Packet]) -> Outgoing<'a> {
        Outgoing(Source::Shared(packets))
    }

    pub(crate) fn departures(
        batch: &'a mut [Packet],
        extras: &'a mut [Packet],
        queue: &'a [Departure],
    ) -> Outgoing<'a> {
        Outgoing(Source::Departures { batch, extras, queue })
    }

    /// How many packets.
    pub fn len(&self) -> usize {
        match &self.0 {
            Source::Departures { queue, .. } => queue.len(),
            Source::Own(packets) => packets.len(),
            Source::Shared(packets) => packets.len(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The packet with this index. An empty one if there is no such packet, or if its buffer was taken before.
    pub fn get(&self, index: usize) -> &Packet {
        let packet = match &self.0 {
            Source::Departures { batch, extras, queue } => {
                queue.get(index).and_then(|departure| match departure.packet {
                    PacketRef::Input(index) => batch.get(usize::from(index)),
                    PacketRef::Extra(index) => extras.get(usize::from(index)),
                })
            }
            Source::Own(packets) => packets.get(index),
            Source::Shared(packets) => packets.get(index).copied(),
        };
        packet.unwrap_or(&NO_PACKET)
    }

    /// The packet with this index, if it leaves for the last time: its buffer can be taken.
    pub fn take(&mut self, index: usize) -> Option<&mut Packet> {
        match &mut self.0 {
            Source::Departures { batch, extras, queue } => {
                let departure = queue.get(index).filter(|departure| departure.last)?;
                match departure.packet {
                    PacketRef::Input(index) => batch.get_mut(usize::from(index)),
                    PacketRef::Extra(index) => extras.get_mut(usize::from(index)),
                }
            }
            Source::Own(packets) => packets.get_mut(index),
            Source::Shared(_) => None,
        }
    }

    /// All packets, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Packet> {
        (0..self.len()).map(|index| self.get(index))
    }
}
