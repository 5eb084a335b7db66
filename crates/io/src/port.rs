//! The interface that every port implements.

use crate::{KernelInterface, PortError, PortTransfer, TxBatch, TxOffloads};
use packet::{Batch, Packet, PortCounters, PortId};
use std::os::fd::BorrowedFd;
use std::time::{SystemTime, UNIX_EPOCH};
use thiserror::Error;

/// Whether packets can be received from a port, and how to wait for them.
#[derive(Debug)]
pub enum Readiness<'a> {
    /// Packets can be received now.
    Now,
    /// Wait until this descriptor is readable. Receive once before that, because packets that
    /// arrived earlier may not make it readable.
    Wait(BorrowedFd<'a>),
    /// No event signals packets: poll.
    Poll,
    /// No further packet will arrive: the end of a capture file.
    Ended,
}

/// Reason why no packets can pass a port at present. The port can recover.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PortFault {
    /// The process at the other end has exited or is not connected yet.
    #[error("the other end of `{port}` is not connected; start the process there, and packets flow again")]
    NoPeer {
        /// The port's name.
        port: String,
    },
    /// The interface has been removed.
    #[error(
        "the interface `{interface}` of `{port}` has been removed; create it again and open the port again (restart the gateway)"
    )]
    InterfaceGone {
        /// The port's name.
        port: String,
        /// The interface.
        interface: String,
    },
    /// The device was removed from the machine.
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

/// An interface for receiving and sending packets. No method blocks.
pub trait Port: Send {
    /// Returns the port's name for metrics, traces and errors, for example that of the interface.
    fn name(&self) -> &str;

    /// Returns the maximum number of bytes of a packet after its Ethernet header.
    fn mtu(&self) -> usize;

    /// Receives packets up to the capacity of the batch, and sets their ingress port to `id` and
    /// their time. Returns the number of added packets. Dropped packets are counted with their
    /// reason.
    ///
    /// # Errors
    /// No packet can be received from this port any more.
    fn receive(&mut self, id: PortId, batch: &mut Batch) -> Result<usize, PortError>;

    /// Sends all of `packets` and returns the number of sent ones. Packets that could not be sent
    /// are counted in [`Port::counters`] with their reason; they are not queued.
    fn send(&mut self, packets: &mut TxBatch<'_>) -> usize;

    /// Returns which packets with an [`packet::Offload`] [`Port::send`] takes. The runner cuts and
    /// completes all others before it calls [`Port::send`].
    fn tx_offloads(&self) -> TxOffloads {
        TxOffloads::default()
    }

    /// Sends packets as [`Port::send`] does, without taking their buffers.
    fn send_all(&mut self, packets: &mut dyn Iterator<Item = &Packet>) -> usize {
        let packets: Vec<&Packet> = packets.collect();
        self.send(&mut TxBatch::copies_of(&packets))
    }

    /// Returns whether packets can be received.
    fn readiness(&self) -> Readiness<'_>;

    /// Returns the counters of the port since it was opened.
    fn counters(&mut self) -> &PortCounters;

    /// Returns the path by which packets pass between the device and this process, if the port has a
    /// choice: the hook of the kernel's flow cache.
    fn path(&self) -> Option<&'static str> {
        None
    }

    /// Returns why no packets can pass the port at present, if so. Can make system calls: call it
    /// at intervals, not for each batch.
    fn port_fault(&mut self) -> Option<PortFault> {
        None
    }

    /// Returns the interface of the port if the kernel's own stack receives its packets too. `None`
    /// for devices and for programs in front of the stack.
    fn kernel_interface(&self) -> Option<KernelInterface> {
        None
    }

    /// Returns the state with which another process continues this port
    /// ([`crate::open_transferred`]), after the last packets that were received or sent. Do not use
    /// the port after this call, except for [`Port::cancel_transfer`]; dropping it has no effect on
    /// the other process. `None` if the port does not support the transfer.
    fn begin_transfer(&mut self) -> Option<PortTransfer> {
        None
    }

    /// Cancels [`Port::begin_transfer`]: this process continues the port, because the other one did
    /// not use it or has exited.
    fn cancel_transfer(&mut self) {}
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

    fn send(&mut self, packets: &mut TxBatch<'_>) -> usize {
        (**self).send(packets)
    }

    fn tx_offloads(&self) -> TxOffloads {
        (**self).tx_offloads()
    }

    fn path(&self) -> Option<&'static str> {
        (**self).path()
    }

    fn port_fault(&mut self) -> Option<PortFault> {
        (**self).port_fault()
    }

    fn readiness(&self) -> Readiness<'_> {
        (**self).readiness()
    }

    fn counters(&mut self) -> &PortCounters {
        (**self).counters()
    }

    fn kernel_interface(&self) -> Option<KernelInterface> {
        (**self).kernel_interface()
    }

    fn begin_transfer(&mut self) -> Option<PortTransfer> {
        (**self).begin_transfer()
    }

    fn cancel_transfer(&mut self) {
        (**self).cancel_transfer();
    }
}

/// A port with its number in the program.
pub struct AttachedPort {
    /// The port number.
    pub id: PortId,
    /// The port.
    pub port: Box<dyn Port>,
}

impl AttachedPort {
    /// Attaches `port` as number `id`.
    pub fn new(id: u32, port: impl Port + 'static) -> AttachedPort {
        AttachedPort { id: PortId(id), port: Box::new(port) }
    }
}

/// Returns the current time as ports set it on packets: nanoseconds since the Unix epoch.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_nanos() as u64)
}
