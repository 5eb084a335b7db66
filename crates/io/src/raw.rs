//! A network interface as a port, by a raw AF_PACKET socket.

use crate::control_queues::{ControlQueues, ControlQueuesSlot};
use crate::device_drops::DeviceDrops;
use crate::gso_tap::{GsoTap, GsoTapError};
use crate::nic_offload::{AcceptedPacket, VNET_HEADER, accept_offloads, is_super_frame, tx_drop_reason, vnet_header};
use crate::port::now;
use crate::port_transfer::{PortCountersState, PortTransfer, TransferKind};
use crate::segment::SegmentPool;
use crate::segment::headers::{Headers, Transport};
use crate::spill::{SpillBuffers, VECTOR};
use crate::sys::{InterfaceWatch, PacketSocket, ReceivedMetadata, SocketOpenError, is_enabled};
use crate::{KernelInterface, Port, PortError, PortFault, Readiness, TxBatch, TxOffloads};
use packet::{Batch, Counter, MAX_LEN, MAX_WIRE_LEN, Packet, PortCounters, PortId, PortReason};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// Bytes added to the MTU for the receive buffer: Ethernet header and one VLAN tag that stays in
/// the packet, rounded up.
const LINK_HEADERS: usize = 64;

/// A port on an existing network interface, for example one end of a veth pair.
///
/// It receives all packets of the interface (promiscuous mode). VLAN tags that the kernel removed
/// are restored. Super-frames and open checksums that the sender left to the hardware stay as they
/// are and are described by [`packet::Offload`]. Packets that this host sends on the interface are
/// not received.
///
/// The kernel's own stack receives the packets too. Give the interface no addresses if it should
/// not reply.
///
/// Super-frames in a tunnel leave whole through a TAP device if the kernel and the rights allow it
/// ([`RawPort::describe_offloads`]). Otherwise they are cut before.
///
/// Needs CAP_NET_RAW. With CAP_NET_ADMIN the buffers are larger.
pub struct RawPort {
    interface: String,
    socket: PacketSocket,
    mtu: usize,
    counters: PortCounters,
    received: Vec<ReceivedMetadata>,
    /// Memory for super-frames.
    spill: SpillBuffers,
    /// Buffers for the tunnel packets that the kernel had merged.
    split: SegmentPool,
    /// Such packets that had no place in the batch.
    pending: VecDeque<Packet>,
    /// The TAP through which super-frames and open checksums leave, or why there is none.
    gso_tap: Result<GsoTap, GsoTapError>,
    /// Queues of control traffic, which are read first.
    control: Option<ControlQueues>,
    new_control: Arc<ControlQueuesSlot>,
    watch: Option<InterfaceWatch>,
    /// Packets that the device dropped after it accepted them.
    device: Option<DeviceDrops>,
    /// Packets that the kernel accepted since the last query of the device.
    accepted: Counter,
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
    /// Continues a port whose last two descriptors are those of its TAP, as
    /// [`RawPort::from_transfer`] does for one without.
    pub(crate) fn from_transfer_with_tap(
        state: RawPortState,
        mut descriptors: Vec<OwnedFd>,
    ) -> Result<RawPort, PortError> {
        let tap = match descriptors.len() {
            // The socket and the list of drops come first, then the TAP and its redirect.
            0..3 => None,
            _ => descriptors.pop().zip(descriptors.pop()),
        };
        let mut port = RawPort::from_transfer(state, descriptors)?;
        if let Some((redirect, tap)) = tap {
            port.gso_tap = Ok(GsoTap::from_descriptors(tap, redirect));
        }
        Ok(port)
    }

    /// Continues a port from the result of [`Port::begin_transfer`].
    ///
    /// # Errors
    /// The descriptor is missing.
    pub(crate) fn from_transfer(state: RawPortState, descriptors: Vec<OwnedFd>) -> Result<RawPort, PortError> {
        let RawPortState { interface, index, mtu, counters } = state;
        let mut descriptors = descriptors.into_iter();
        let Some(socket) = descriptors.next() else {
            return Err(PortError::TakeOver { port: interface, why: "its socket is missing".to_owned() });
        };
        let device = descriptors.next().and_then(|list| DeviceDrops::from_descriptor(list, &interface));
        let mtu = usize::try_from(mtu).unwrap_or(MAX_WIRE_LEN).min(MAX_WIRE_LEN - LINK_HEADERS);
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
            spill: SpillBuffers::new(),
            split: SegmentPool::default(),
            pending: VecDeque::new(),
            gso_tap: Err(GsoTapError::NotTransferred),
            control,
            new_control,
            watch,
            device,
            accepted: Counter::default(),
        })
    }

    /// Opens the interface of this name in the calling thread's network namespace (see
    /// [`crate::Namespace::run`] for another one).
    pub fn open(interface: &str) -> Result<RawPort, PortError> {
        RawPort::open_as(interface, PacketSocket::bind)
    }

    /// Opens an interface as [`RawPort::open`] does, only to send: no packet is received. Packets
    /// that the device drops are not counted.
    pub(crate) fn open_to_send(interface: &str) -> Result<RawPort, PortError> {
        RawPort::open_as(interface, PacketSocket::bind_to_send).map(|port| RawPort { device: None, ..port })
    }

    /// Opens an interface; `bind` binds the socket, to receive and send or only to send.
    fn open_as(
        interface: &str,
        bind: impl Fn(&PacketSocket, &str) -> Result<(), SocketOpenError>,
    ) -> Result<RawPort, PortError> {
        let open_error = |step: &'static str, source: io::Error| {
            let interface = interface.to_owned();
            match source.raw_os_error() {
                Some(libc::EPERM | libc::EACCES) => PortError::NotPermitted { interface },
                Some(libc::ENODEV | libc::ENXIO) => PortError::NoSuchInterface { interface },
                _ => PortError::Open { interface, step, source },
            }
        };
        let socket = PacketSocket::new(interface).map_err(|error| open_error(error.step, error.source))?;
        let (mtu, hardware_type) =
            socket.mtu_and_type(interface).map_err(|source| open_error("read the MTU", source))?;
        if hardware_type != libc::ARPHRD_ETHER && hardware_type != libc::ARPHRD_LOOPBACK {
            return Err(PortError::NotEthernet { interface: interface.to_owned(), hardware_type });
        }
        bind(&socket, interface).map_err(|error| open_error(error.step, error.source))?;
        let watch = InterfaceWatch::of_socket(socket.as_fd(), interface, socket.index())
            .map_err(|source| open_error("watch the link", source))?;
        let gso_tap = GsoTap::open(socket.as_fd(), socket.index() as u32);
        Ok(RawPort {
            interface: interface.to_owned(),
            gso_tap,
            watch: Some(watch),
            device: DeviceDrops::of(interface),
            accepted: Counter::default(),
            socket,
            // Limited to the longest packet (the loopback's MTU is 65536).
            mtu: mtu.min(MAX_WIRE_LEN - LINK_HEADERS),
            counters: PortCounters::default(),
            received: Vec::with_capacity(VECTOR),
            spill: SpillBuffers::new(),
            split: SegmentPool::default(),
            pending: VecDeque::new(),
            control: None,
            new_control: Arc::default(),
        })
    }

    /// Returns a sentence that says how super-frames leave.
    pub fn describe_offloads(&self) -> String {
        match &self.gso_tap {
            Ok(tap) => format!("super-frames leave whole, through the TAP device {}", tap.name()),
            Err(why) => format!("super-frames are cut into segments, because {why}"),
        }
    }

    /// Sends a super-frame or a packet with an open checksum through the TAP. Returns the number of
    /// sent packets. This is 1 or 0.
    fn send_by_tap(&mut self, packet: &Packet, headers: &Headers) -> usize {
        let Ok(tap) = &self.gso_tap else { return 0 };
        loop {
            match tap.send(packet, headers) {
                Ok(()) => {
                    self.counters.sent.count_packet(packet.len());
                    self.accepted.count_packet(packet.len());
                    return 1;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.count_refused(&[packet], &error);
                    return 0;
                }
            }
        }
    }

    /// Describes the offloads of the packets in `slots`, whose metadata is in `received`, and
    /// removes packets that cannot be accepted. `space` is the maximum length in bytes of a packet
    /// that is no super-frame. Returns how many of `slots`, from the first, are kept; merged
    /// packets that were cut are in `pending`.
    fn accept_received(&mut self, slots: &mut [Packet], id: PortId, space: usize) -> usize {
        let time = now();
        let mut kept_count = 0;
        let mut has_super_frames = false;
        for (index, received) in self.received.iter().enumerate() {
            let slot = &mut slots[index];
            slot.ingress_port = id;
            slot.rx_time_ns = time;
            let is_super_frame = is_super_frame(&received.vnet_header);
            has_super_frames |= is_super_frame;
            let limit = if is_super_frame { MAX_LEN } else { space };
            let outcome = match received.len > limit {
                true => Err(PortReason::RxOversize),
                false => accept_offloads(slot, &received.vnet_header, received.vlan, &mut self.split),
            };
            match outcome {
                Ok(AcceptedPacket::Whole) => {
                    self.counters.received.count_packet(slot.len());
                    slots.swap(kept_count, index);
                    kept_count += 1;
                }
                Ok(AcceptedPacket::Split) => {
                    self.pending.extend(self.split.packets_mut().iter_mut().map(std::mem::take));
                }
                Err(reason) => self.counters.drops.count_drop(reason, received.len),
            }
        }
        self.spill.note_received(has_super_frames);
        kept_count
    }

    /// Moves pending packets to the batch. Returns their number.
    fn deliver_pending(&mut self, batch: &mut Batch) -> usize {
        let mut count = 0;
        while batch.remaining_capacity() > 0 {
            let Some(mut packet) = self.pending.pop_front() else { break };
            self.counters.received.count_packet(packet.len());
            count += usize::from(batch.push_swap(&mut packet).is_ok());
        }
        count
    }

    /// Counts the packets that the kernel refused with this error as dropped: all of `packets` if
    /// the cause concerns the interface, otherwise only the first. Returns their number.
    fn count_refused(&mut self, packets: &[&Packet], error: &io::Error) -> usize {
        let (reason, drop_count) = match error.raw_os_error() {
            Some(libc::EAGAIN | libc::ENOBUFS) => (PortReason::TxQueueFull, packets.len()),
            Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV) => (PortReason::TxPortDown, packets.len()),
            Some(libc::EMSGSIZE) => (PortReason::TxMtu, 1),
            _ => (PortReason::TxError, 1),
        };
        for packet in &packets[..drop_count] {
            self.counters.drops.count_drop(reason, packet.len());
        }
        drop_count
    }

    /// Sends up to [`VECTOR`] packets of sendable size, each with its `virtio_net_hdr`. Returns the
    /// number of sent packets. A call fails also because of an error that the socket has pending
    /// from before, so the first error of these kinds is not attributed to a packet.
    fn send_vector(&mut self, packets: &[&Packet], vnet_headers: &[[u8; VNET_HEADER]]) -> usize {
        let mut done = 0;
        let (mut sent, mut has_lost_receive) = (0, false);
        let mut pending_errors = [libc::ENETDOWN, libc::EINVAL].map(Some);
        while done < packets.len() {
            match self.socket.send(&packets[done..], &vnet_headers[done..]) {
                Ok(count) => {
                    for packet in &packets[done..done + count] {
                        self.counters.sent.count_packet(packet.len());
                        self.accepted.count_packet(packet.len());
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
                    has_lost_receive |= error.raw_os_error() == Some(libc::EINVAL);
                }
                // A second error is about this packet.
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) && has_lost_receive => {
                    has_lost_receive = false;
                    done += self.count_refused(&packets[done..], &error);
                }
                Err(error) => done += self.count_refused(&packets[done..], &error),
            }
        }
        self.counters.drops.count_drops(PortReason::RxSegmentationOffload, u64::from(has_lost_receive));
        sent
    }

    /// Counts packets that the device dropped after it accepted them. The count is limited to the
    /// packets that this port sent, because other senders can use the interface.
    fn count_device_drops(&mut self) {
        let mut accepted = std::mem::take(&mut self.accepted);
        let Some(device) = &mut self.device else { return };
        let lost = accepted.take_packets(device.take_dropped());
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

    /// Receives up to [`VECTOR`] packets from the queue of control traffic with this index, or from
    /// the port's own queue (`None`). Returns the number of packets that were added to the batch,
    /// with those that were pending.
    fn receive_queue(&mut self, queue: Option<usize>, id: PortId, batch: &mut Batch) -> Result<usize, PortError> {
        let mut delivered = self.deliver_pending(batch);
        let before = batch.len();
        let slot_count = batch.remaining_capacity().min(VECTOR);
        for _ in 0..slot_count {
            // Does not fail, because the batch has capacity.
            let _ = batch.push();
        }
        let slots = &mut batch.packets_mut()[before..];
        let space = self.mtu + LINK_HEADERS;
        let control_socket = queue.and_then(|index| self.control.as_ref()?.sockets.get(index));
        let socket = control_socket.unwrap_or(&self.socket);
        let outcome = socket.receive(slots, space, &mut self.spill, &mut self.received);
        let kept_count = match &outcome {
            Ok(()) => self.accept_received(slots, id, space),
            Err(_) => 0,
        };
        batch.truncate(before + kept_count);
        delivered += kept_count + self.deliver_pending(batch);
        match outcome {
            Ok(()) => Ok(delivered),
            Err(source) => match source.raw_os_error() {
                Some(libc::EAGAIN | libc::EINTR) => Ok(delivered),
                // A packet of segments that a virtio_net_hdr cannot describe (tunnelled ones, for
                // example).
                Some(libc::EINVAL) => {
                    self.counters.drops.count_drops(PortReason::RxSegmentationOffload, 1);
                    Ok(delivered)
                }
                // Reported once when the interface goes down. It can come up again, and no packet
                // is lost.
                Some(libc::ENETDOWN) => Ok(delivered),
                _ => Err(PortError::Receive { port: self.interface.clone(), source }),
            },
        }
    }

    /// Sends packets, as [`Port::send`]. Collects them in a vector for one system call; a packet
    /// for the TAP is sent by itself, after the collected ones.
    fn send_batch(&mut self, packets: &mut TxBatch<'_>) -> usize {
        let placeholder = Packet::new();
        let mut vector: [&Packet; VECTOR] = [&placeholder; VECTOR];
        let mut vnet_headers = [[0; VNET_HEADER]; VECTOR];
        let mut filled = 0;
        let mut sent = 0;
        // Behind the TAP, the kernel drops packets for a disabled interface without counting them.
        let mut is_up = None;
        for packet in packets.iter() {
            if let Some(reason) = tx_drop_reason(packet, self.mtu) {
                self.counters.drops.count_drop(reason, packet.len());
                continue;
            }
            let headers = if packet.offload.is_none() { None } else { Headers::parse(packet.bytes()) };
            // All TCP with open checksums takes the TAP, because packets of one flow must not overtake
            // each other. UDP never needs it: its super-frames are cut.
            let tcp = headers.filter(|headers| headers.inner.protocol == Transport::Tcp);
            if let Some(headers) = tcp.filter(|_| self.gso_tap.is_ok()) {
                // Packets before it are sent first.
                sent += self.send_vector(&vector[..filled], &vnet_headers[..filled]);
                filled = 0;
                if *is_up.get_or_insert_with(|| is_enabled(self.socket.as_fd(), &self.interface)) {
                    sent += self.send_by_tap(packet, &headers);
                } else {
                    self.counters.drops.count_drop(PortReason::TxPortDown, packet.len());
                }
                continue;
            }
            vector[filled] = packet;
            vnet_headers[filled] = vnet_header(packet, headers.as_ref());
            filled += 1;
            if filled == VECTOR {
                sent += self.send_vector(&vector, &vnet_headers);
                filled = 0;
            }
        }
        sent + self.send_vector(&vector[..filled], &vnet_headers[..filled])
    }
}

/// Removes an error from a list of pending errors. Returns whether it was in the list.
fn take(errors: &mut [Option<i32>], error: Option<i32>) -> bool {
    let entry = errors.iter_mut().find(|pending| pending.is_some() && **pending == error);
    entry.is_some_and(|pending| pending.take().is_some())
}

impl Port for RawPort {
    fn name(&self) -> &str {
        &self.interface
    }

    fn mtu(&self) -> usize {
        self.mtu
    }

    /// Receives from the queues of control traffic first, then from the port's own.
    fn receive(&mut self, id: PortId, batch: &mut Batch) -> Result<usize, PortError> {
        if let Some(queues) = self.new_control.take() {
            self.divide_queue(queues);
        }
        let mut count = 0;
        for queue in 0..self.control.as_ref().map_or(0, |control| control.sockets.len()) {
            count += self.receive_queue(Some(queue), id, batch)?;
        }
        Ok(count + self.receive_queue(None, id, batch)?)
    }

    fn send(&mut self, packets: &mut TxBatch<'_>) -> usize {
        self.send_batch(packets)
    }

    fn tx_offloads(&self) -> TxOffloads {
        TxOffloads { checksum: true, plain_tcp: true, tunnelled_tcp: self.gso_tap.is_ok() }
    }

    fn readiness(&self) -> Readiness<'_> {
        if !self.pending.is_empty() {
            return Readiness::Now;
        }
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

    /// Describes the port for another process. The descriptors are the socket, the list of the
    /// device's drops if it is open, and the two of the TAP if there is one.
    fn begin_transfer(&mut self) -> Option<PortTransfer> {
        if self.control.is_some() {
            // The other process has no further queues yet.
            let _ = self.socket.remove_filter();
        }
        let counters = PortCountersState::of(self.counters());
        let (interface, index, mtu) = (self.interface.clone(), self.socket.index(), self.mtu as u64);
        let tap = self.gso_tap.as_ref().ok().map(GsoTap::descriptors);
        let kind = if tap.is_some() { TransferKind::RawWithTap } else { TransferKind::Raw };
        let descriptors: Vec<_> = std::iter::once(self.socket.as_fd())
            .chain(self.device.as_ref().map(DeviceDrops::as_fd))
            .chain(tap.into_iter().flatten().map(AsFd::as_fd))
            .collect();
        PortTransfer::new(kind, &RawPortState { interface, index, mtu, counters }, &descriptors)
    }

    fn cancel_transfer(&mut self) {
        if let Some(queues) = self.control.take() {
            self.divide_queue(queues);
        }
    }
}
