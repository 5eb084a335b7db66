//! A network interface as a port, by a raw AF_PACKET socket.

use crate::control_queues::{ControlQueues, ControlQueuesSlot};
use crate::device_drops::DeviceDrops;
use crate::nic_offload::{tx_drop_reason, undo_offloads};
use crate::port::now;
use crate::port_transfer::{PortCountersState, PortTransfer, TransferKind};
use crate::sys::{InterfaceWatch, PacketSocket, ReceivedMetadata, VECTOR};
use crate::{KernelInterface, Port, PortError, PortFault, Readiness, TxBatch};
use packet::{Batch, Counter, MAX_LEN, Packet, PortCounters, PortId, PortReason};
use serde::{Deserialize, Serialize};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Bytes added to the MTU for the receive buffer: Ethernet header and one VLAN tag that stays in
/// the packet, rounded up.
const LINK_HEADERS: usize = 64;

/// A port on an existing network interface, for example one end of a veth pair.
///
/// It receives all packets of the interface (promiscuous mode) in their form on the wire: checksums
/// that the sender left to the hardware are computed, and VLAN tags that the kernel removed are
/// restored. Packets of several segments are refused, see [`PortReason::RxSegmentationOffload`].
/// Packets that this host sends on the interface are not received.
///
/// The kernel's own stack receives the packets too. Give the interface no addresses if it should
/// not reply.
///
/// Needs CAP_NET_RAW. With CAP_NET_ADMIN the buffers are larger.
pub struct RawPort {
    interface: String,
    socket: PacketSocket,
    mtu: usize,
    counters: PortCounters,
    received: Vec<ReceivedMetadata>,
    /// Queues of control traffic, which are read first.
    control: Option<ControlQueues>,
    new_control: Arc<ControlQueuesSlot>,
    watch: Option<InterfaceWatch>,
    /// Packets that the device dropped after it accepted them.
    device: Option<DeviceDrops>,
    /// Packets that the kernel accepted since the last query of the device.
    taken: Counter,
}

/// State of a port for another process. The socket, which is transferred with it, queues packets
/// that arrive in between.
#[derive(Serialize, Deserialize)]
pub(crate) struct RawPortState {
    interface: String,
    index: i32,
    mtu: u64,
    counters: PortCountersState,
}

impl RawPort {
    /// Continues a port from the result of [`Port::begin_transfer`].
    ///
    /// # Errors
    /// The descriptor is missing.
    pub(crate) fn from_transfer(described: RawPortState, descriptors: Vec<OwnedFd>) -> Result<RawPort, PortError> {
        let RawPortState { interface, index, mtu, counters } = described;
        let mut descriptors = descriptors.into_iter();
        let Some(socket) = descriptors.next() else {
            return Err(PortError::TakeOver { port: interface, why: "its socket is missing".to_owned() });
        };
        let device = descriptors.next().and_then(|list| DeviceDrops::from_descriptor(list, &interface));
        let mtu = usize::try_from(mtu).unwrap_or(MAX_LEN).min(MAX_LEN - LINK_HEADERS);
        let socket = PacketSocket::from_descriptor(socket, index);
        // Without the watch, the port does not report its link.
        let watch = InterfaceWatch::of_socket(socket.as_fd(), &interface, index).ok();
        let (counters, received) = (counters.into_counters(), Vec::with_capacity(VECTOR));
        let (control, new_control) = (None, Arc::default());
        Ok(RawPort {
            interface,
            socket,
            mtu,
            counters,
            received,
            control,
            new_control,
            watch,
            device,
            taken: Counter::default(),
        })
    }

    /// Opens the interface of this name in the calling thread's network namespace (see
    /// [`crate::Namespace::run`] for another one).
    pub fn open(interface: &str) -> Result<RawPort, PortError> {
        let failed = |step: &'static str, source: io::Error| {
            let interface = interface.to_owned();
            match source.raw_os_error() {
                Some(libc::EPERM | libc::EACCES) => PortError::NotPermitted { interface },
                Some(libc::ENODEV | libc::ENXIO) => PortError::NoSuchInterface { interface },
                _ => PortError::Open { interface, step, source },
            }
        };
        let socket = PacketSocket::new(interface).map_err(|failure| failed(failure.step, failure.source))?;
        let (mtu, hardware_type) = socket.mtu_and_type(interface).map_err(|source| failed("read the MTU", source))?;
        if hardware_type != libc::ARPHRD_ETHER && hardware_type != libc::ARPHRD_LOOPBACK {
            return Err(PortError::NotEthernet { interface: interface.to_owned(), hardware_type });
        }
        socket.bind(interface).map_err(|failure| failed(failure.step, failure.source))?;
        let watch = InterfaceWatch::of_socket(socket.as_fd(), interface, socket.index())
            .map_err(|source| failed("watch the link", source))?;
        Ok(RawPort {
            interface: interface.to_owned(),
            watch: Some(watch),
            device: DeviceDrops::of(interface),
            taken: Counter::default(),
            socket,
            // Limited to the longest packet (the loopback's MTU is 65536).
            mtu: mtu.min(MAX_LEN - LINK_HEADERS),
            counters: PortCounters::default(),
            received: Vec::with_capacity(VECTOR),
            control: None,
            new_control: Arc::default(),
        })
    }

    /// Converts received packets to their form on the wire and removes those for which that is
    /// impossible. Returns how many of `slots`, from the first, are kept.
    fn accept_received(&mut self, slots: &mut [Packet], id: PortId, space: usize) -> usize {
        let time = now();
        let mut kept = 0;
        for (index, received) in self.received.iter().enumerate() {
            let slot = &mut slots[index];
            let whole = if received.len > space { Err(PortReason::RxOversize) } else { Ok(()) };
            let outcome = undo_offloads(slot, &received.vnet_header, received.vlan).and(whole);
            match outcome {
                Ok(()) => {
                    slot.ingress_port = id;
                    slot.rx_time_ns = time;
                    self.counters.received.count_packet(slot.len());
                    slots.swap(kept, index);
                    kept += 1;
                }
                Err(reason) => self.counters.drops.count_drop(reason, received.len),
            }
        }
        kept
    }

    /// Counts why the first of `packets` could not be sent. Returns the number of packets that are
    /// dropped for that reason.
    fn count_refused(&mut self, packets: &[&Packet], error: &io::Error) -> usize {
        let (reason, concerned) = match error.raw_os_error() {
            Some(libc::EAGAIN | libc::ENOBUFS) => (PortReason::TxQueueFull, packets.len()),
            Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV) => (PortReason::TxPortDown, packets.len()),
            Some(libc::EMSGSIZE) => (PortReason::TxMtu, 1),
            _ => (PortReason::TxError, 1),
        };
        for packet in &packets[..concerned] {
            self.counters.drops.count_drop(reason, packet.len());
        }
        concerned
    }

    /// Sends up to [`VECTOR`] packets of sendable size.
    fn send_vector(&mut self, packets: &[&Packet]) -> usize {
        let mut done = 0;
        let (mut sent, mut unreceived) = (0, false);
        let mut pending_errors = [libc::ENETDOWN, libc::EINVAL].map(Some);
        while done < packets.len() {
            match self.socket.send(&packets[done..]) {
                Ok(count) => {
                    for packet in &packets[done..done + count] {
                        self.counters.sent.count_packet(packet.len());
                        self.taken.count_packet(packet.len());
                    }
                    sent += count;
                    // The kernel sends at least one or reports an error; the `max` prevents an
                    // endless loop otherwise.
                    done += count.max(1);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Pending errors of the socket, which the next call reports: the interface was
                // down, or a packet could not be received.
                Err(error) if take(&mut pending_errors, error.raw_os_error()) => {
                    unreceived |= error.raw_os_error() == Some(libc::EINVAL);
                }
                // A second error is about this packet.
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) && unreceived => {
                    unreceived = false;
                    done += self.count_refused(&packets[done..], &error);
                }
                Err(error) => done += self.count_refused(&packets[done..], &error),
            }
        }
        self.counters.drops.count_drops(PortReason::RxSegmentationOffload, u64::from(unreceived));
        sent
    }

    /// Counts packets that the device dropped after it accepted them. The count is limited to the
    /// packets that this port sent, because other senders can use the interface.
    fn count_device_drops(&mut self) {
        let mut taken = std::mem::take(&mut self.taken);
        let Some(device) = &mut self.device else { return };
        let lost = taken.take_packets(device.take_dropped());
        if lost.is_zero() {
            return;
        }
        let is_up = self.watch.as_ref().is_some_and(|watch| watch.is_up() == Some(true));
        let reason = if is_up { PortReason::TxError } else { PortReason::TxPortDown };
        self.counters.drops.add_counter(reason, lost);
        self.counters.sent = self.counters.sent.since(lost);
    }

    /// Receives control traffic from queues of its own from now on.
    fn divide_queue(&mut self, queues: ControlQueues) {
        // Without the division the own queue has all packets, and the others are closed.
        if queues.divide(&self.socket).is_ok() {
            self.control = Some(queues);
        }
    }

    /// Receives packets from a queue of control traffic, or from the port's own.
    fn receive_queue(&mut self, queue: Option<usize>, id: PortId, batch: &mut Batch) -> Result<usize, PortError> {
        let before = batch.len();
        let wanted = batch.remaining_capacity().min(VECTOR);
        for _ in 0..wanted {
            // Does not fail, because the batch has capacity.
            let _ = batch.push();
        }
        let slots = &mut batch.packets_mut()[before..];
        let space = self.mtu + LINK_HEADERS;
        let control = queue.and_then(|at| self.control.as_ref()?.sockets.get(at));
        let outcome = control.unwrap_or(&self.socket).receive(slots, space, &mut self.received);
        let kept = match &outcome {
            Ok(()) => self.accept_received(slots, id, space),
            Err(_) => 0,
        };
        batch.truncate(before + kept);
        match outcome {
            Ok(()) => Ok(kept),
            Err(source) => match source.raw_os_error() {
                Some(libc::EAGAIN | libc::EINTR) => Ok(0),
                // A packet of segments that a virtio_net_hdr cannot describe (tunnelled ones, for
                // example).
                Some(libc::EINVAL) => {
                    self.counters.drops.count_drops(PortReason::RxSegmentationOffload, 1);
                    Ok(0)
                }
                // Reported once when the interface goes down. It can come up again, and no packet
                // is lost.
                Some(libc::ENETDOWN) => Ok(0),
                _ => Err(PortError::Receive { port: self.interface.clone(), source }),
            },
        }
    }

    /// Sends packets, as [`Port::send`].
    fn send_batch(&mut self, packets: &mut TxBatch<'_>) -> usize {
        let none = Packet::new();
        let mut vector: [&Packet; VECTOR] = [&none; VECTOR];
        let mut filled = 0;
        let mut sent = 0;
        for packet in packets.iter() {
            if let Some(reason) = tx_drop_reason(packet.bytes(), self.mtu) {
                self.counters.drops.count_drop(reason, packet.len());
                continue;
            }
            vector[filled] = packet;
            filled += 1;
            if filled == VECTOR {
                sent += self.send_vector(&vector);
                filled = 0;
            }
        }
        sent + self.send_vector(&vector[..filled])
    }
}

/// Removes an error from a list of pending errors. Returns whether it was there.
fn take(errors: &mut [Option<i32>], error: Option<i32>) -> bool {
    let found = errors.iter_mut().find(|known| known.is_some() && **known == error);
    found.is_some_and(|known| known.take().is_some())
}

impl Port for RawPort {
    fn name(&self) -> &str {
        &self.interface
    }

    fn mtu(&self) -> usize {
        self.mtu
    }

    fn receive(&mut self, id: PortId, batch: &mut Batch) -> Result<usize, PortError> {
        if let Some(queues) = self.new_control.take() {
            self.divide_queue(queues);
        }
        let mut kept = 0;
        for queue in 0..self.control.as_ref().map_or(0, |control| control.sockets.len()) {
            kept += self.receive_queue(Some(queue), id, batch)?;
        }
        Ok(kept + self.receive_queue(None, id, batch)?)
    }

    fn send(&mut self, packets: &mut TxBatch<'_>) -> usize {
        self.send_batch(packets)
    }
    fn readiness(&self) -> Readiness<'_> {
        Readiness::Wait(self.control.as_ref().map_or(self.socket.as_fd(), ControlQueues::as_fd))
    }

    fn counters(&mut self) -> &PortCounters {
        let control = self.control.iter().flat_map(|control| &control.sockets);
        let lost: u64 = control.chain(std::iter::once(&self.socket)).map(PacketSocket::take_drops).sum();
        self.counters.drops.count_drops(PortReason::RxQueueFull, lost);
        self.count_device_drops();
        &self.counters
    }

    fn port_fault(&mut self) -> Option<PortFault> {
        let port = || self.interface.clone();
        match self.watch.as_ref()?.is_up() {
            None => Some(PortFault::InterfaceGone { port: port(), interface: port() }),
            Some(false) => Some(PortFault::LinkDown { port: port() }),
            Some(true) => None,
        }
    }

    fn kernel_interface(&self) -> Option<KernelInterface> {
        KernelInterface::new(&self.interface, self.socket.as_fd(), Some(self.new_control.clone()))
    }

    fn begin_transfer(&mut self) -> Option<PortTransfer> {
        if self.control.is_some() {
            // The other process has no further queues yet.
            let _ = self.socket.remove_filter();
        }
        let counters = PortCountersState::of(self.counters());
        let (interface, index, mtu) = (self.interface.clone(), self.socket.index(), self.mtu as u64);
        let descriptors: Vec<_> =
            std::iter::once(self.socket.as_fd()).chain(self.device.as_ref().map(DeviceDrops::as_fd)).collect();
        PortTransfer::new(TransferKind::Raw, &RawPortState { interface, index, mtu, counters }, &descriptors)
    }

    fn cancel_transfer(&mut self) {
        if let Some(queues) = self.control.take() {
            self.divide_queue(queues);
        }
    }
}
