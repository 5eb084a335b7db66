//! What every port can do.

use crate::PortError;
use packet::{Batch, Packet, PortCounters, PortId};
use std::os::fd::BorrowedFd;
use std::time::{SystemTime, UNIX_EPOCH};

/// Whether packets can be received from a port, and how to wait for them.
#[derive(Debug)]
pub enum Readiness<'a> {
    /// Packets can be received at once.
    Now,
    /// Wait until this descriptor is readable.
    Wait(BorrowedFd<'a>),
    /// No packet will ever come again: the end of a capture file.
    Ended,
}

/// Where packets come in and go out. Nothing here blocks.
pub trait Port: Send {
    /// The port's name in metrics, traces and errors, for example that of the interface.
    fn name(&self) -> &str;

    /// The most bytes that a packet can carry after its Ethernet header.
    fn mtu(&self) -> usize;

    /// Receives what is there, as far as the batch has room, marks each packet with `id` as its ingress port and with the time,
    /// and returns how many were added. Packets that are lost on the way are counted, with their reason.
    ///
    /// # Errors
    /// When no packet can be received from this port any more.
    fn receive(&mut self, id: PortId, batch: &mut Batch) -> Result<usize, PortError>;

    /// Sends all packets of the iterator, and returns how many were sent. Those that could not be sent are counted in
    /// [`Port::counters`] with their reason; none is kept for later.
    fn send(&mut self, packets: &mut dyn Iterator<Item = &Packet>) -> usize;

    /// Whether there is something to receive.
    fn readiness(&self) -> Readiness<'_>;

    /// What went through the port since it was opened.
    fn counters(&mut self) -> &PortCounters;
}

impl<P: Port + ?Sized> Port for Box<P> {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn mtu(&self) -> usize {
        (**self).mtu()
    }

    fn receive(&mut self, id: PortId, batch: &mut Batch) -> Result<usize, PortError> {
        (**self).receive(id, batch)
    }

    fn send(&mut self, packets: &mut dyn Iterator<Item = &Packet>) -> usize {
        (**self).send(packets)
    }

    fn readiness(&self) -> Readiness<'_> {
        (**self).readiness()
    }

    fn counters(&mut self) -> &PortCounters {
        (**self).counters()
    }
}

/// The time of receipt that ports put on packets: nanoseconds since the Unix epoch.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_nanos() as u64)
}
