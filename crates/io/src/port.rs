//! What every port can do.

use crate::{HandOver, Outgoing, PortError};
use packet::{Batch, Packet, PortCounters, PortId};
use std::os::fd::BorrowedFd;
use std::time::{SystemTime, UNIX_EPOCH};
use thiserror::Error;

/// Whether packets can be received from a port, and how to wait for them.
#[derive(Debug)]
pub enum Readiness<'a> {
    /// Packets can be received at once.
    Now,
    /// Wait until this descriptor is readable. Ask for packets once more before: those that came earlier may not make it readable.
    Wait(BorrowedFd<'a>),
    /// Nothing tells when packets arrive: ask again, soon.
    Poll,
    /// No packet will ever come again: the end of a capture file.
    Ended,
}

/// Why nothing can go through a port at present. It may be able to again, by itself.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Trouble {
    /// The process at the other end has ended, or has not come yet.
    #[error(
        "the other end of `{port}` is not connected; packets go on as soon as it is: start the process at the other end"
    )]
    NoPeer {
        /// The port's name.
        port: String,
    },
    /// The interface has been removed.
    #[error(
        "the interface `{interface}` of `{port}` has been removed; make it again and open the port again (restart the gateway)"
    )]
    InterfaceGone {
        /// The port's name.
        port: String,
        /// The interface.
        interface: String,
    },
    /// The device has been taken out of the machine.
    #[error("the device of `{port}` has been removed from this machine; put it back and open the port again")]
    DeviceGone {
        /// The port's name.
        port: String,
    },
    /// The link is down.
    #[error("the link of `{port}` is down; check the cable, and the interface at the other end")]
    LinkDown {
        /// The port's name.
        port: String,
    },
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

    /// Sends all of `packets`, and returns how many were sent. Those that could not be sent are counted in
    /// [`Port::counters`] with their reason; none is kept for later.
    fn send(&mut self, packets: &mut Outgoing<'_>) -> usize;

    /// As [`Port::send`], for packets that stay as they are.
    fn send_all(&mut self, packets: &mut dyn Iterator<Item = &Packet>) -> usize {
        let packets: Vec<&Packet> = packets.collect();
        self.send(&mut Outgoing::copies_of(&packets))
    }

    /// Whether there is something to receive.
    fn readiness(&self) -> Readiness<'_>;

    /// What went through the port since it was opened.
    fn counters(&mut self) -> &PortCounters;

    /// Why nothing can go through the port at present, if so. May ask the system: meant to be called now and then.
    fn trouble(&mut self) -> Option<Trouble> {
        None
    }

    /// What another process needs to go on with this port ([`crate::take_over`]), where this one stopped after the last packets it received or
    /// sent. From then on the port is not to be used any more, unless by [`Port::take_back`]; to drop it disturbs nothing. `None`: it cannot be
    /// handed over.
    fn hand_over(&mut self) -> Option<HandOver> {
        None
    }

    /// The port is used on here after all: whoever was to take it over has not used it, or has ended.
    fn take_back(&mut self) {}
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

    fn send(&mut self, packets: &mut Outgoing<'_>) -> usize {
        (**self).send(packets)
    }

    fn trouble(&mut self) -> Option<Trouble> {
        (**self).trouble()
    }

    fn readiness(&self) -> Readiness<'_> {
        (**self).readiness()
    }

    fn counters(&mut self) -> &PortCounters {
        (**self).counters()
    }

    fn hand_over(&mut self) -> Option<HandOver> {
        (**self).hand_over()
    }

    fn take_back(&mut self) {
        (**self).take_back();
    }
}

/// A port and the number by which the program knows it.
pub struct Attached {
    /// The number.
    pub id: PortId,
    /// The port.
    pub port: Box<dyn Port>,
}

impl Attached {
    /// `port` as number `id`.
    pub fn new(id: u32, port: impl Port + 'static) -> Attached {
        Attached { id: PortId(id), port: Box::new(port) }
    }
}

/// The time of receipt that ports put on packets: nanoseconds since the Unix epoch.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_nanos() as u64)
}
