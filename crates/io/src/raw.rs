//! A network interface as a port, by a raw AF_PACKET socket.

use crate::dropped::DeviceDrops;
use crate::hand_over::{CountersForm, HandOver, Kind};
use crate::offload::{undo_offloads, unsendable};
use crate::port::now;
use crate::sys::{InterfaceWatch, PacketSocket, Received, VECTOR};
use crate::{Outgoing, Port, PortError, Readiness, Trouble};
use packet::{Batch, Counter, MAX_LEN, Packet, PortCounters, PortId, PortReason};
use serde::{Deserialize, Serialize};
use std::io;
use std::os::fd::OwnedFd;

/// Added to the MTU for the receive buffer: Ethernet header and one VLAN tag that stays in the packet, rounded up.
const LINK_HEADERS: usize = 64;

/// A port on a network interface that exists already, for example one end of a veth pair.
///
/// It receives everything that arrives there (promiscuous mode), in the form in which it would be on a wire: checksums that the sender left
/// to the hardware are computed, VLAN tags that the kernel took out are put back. Packets of several segments
/// are refused, see [`PortReason::RxSegmentationOffload`]. What this host itself sends on the interface is not received.
///
/// The kernel's own stack goes on receiving too. Give the interface no addresses if it should not answer.
///
/// Needs CAP_NET_RAW; with CAP_NET_ADMIN the buffers are larger.
pub struct RawPort {
    interface: String,
    socket: PacketSocket,
    mtu: usize,
    counters: PortCounters,
    received: Vec<Received>,
    watch: Option<InterfaceWatch>,
    /// What the device drops though it has taken it.
    device: Option<DeviceDrops>,
    /// What the kernel took since the device was asked last.
    taken: Counter,
}

/// What another process needs to know of a port, beside its socket, which keeps what arrives meanwhile.
#[derive(Serialize, Deserialize)]
pub(crate) struct Described {
    interface: String,
    index: i32,
    mtu: u64,
    counters: CountersForm,
}

impl RawPort {
    /// Takes over what [`Port::hand_over`] gave.
    ///
    /// # Errors
    /// The descriptor is missing.
    pub(crate) fn take_over(described: Described, descriptors: Vec<OwnedFd>) -> Result<RawPort, PortError> {
        let Described { interface, index, mtu, counters } = described;
        let mut descriptors = descriptors.into_iter();
        let Some(socket) = descriptors.next() else {
            return Err(PortError::TakeOver { port: interface, why: "its socket is missing".to_owned() });
        };
        let device = descriptors.next().and_then(|list| DeviceDrops::from_descriptor(list, &interface));
        let mtu = usize::try_from(mtu).unwrap_or(MAX_LEN).min(MAX_LEN - LINK_HEADERS);
        let socket = PacketSocket::from_descriptor(socket, index);
        // Without it, the port says nothing of its link.
        let watch = InterfaceWatch::of_socket(socket.as_fd(), &interface, index).ok();
        let (counters, received) = (counters.counters(), Vec::with_capacity(VECTOR));
        Ok(RawPort { interface, socket, mtu, counters, received, watch, device, taken: Counter::default() })
    }

    /// Opens the interface of this name in the network namespace of the calling thread (see [`crate::Namespace::run`] for another).
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
            // What is longer than a packet can be could not be sent anyhow (the loopback's MTU is 65536).
            mtu: mtu.min(MAX_LEN - LINK_HEADERS),
            counters: PortCounters::default(),
            received: Vec::with_capacity(VECTOR),
        })
    }

    /// Brings the packets that arrived into the form of the wire and takes out those for which that is not possible. Returns how
    /// many of `slots`, from the first on, are to be kept.
    fn accept(&mut self, slots: &mut [Packet], id: PortId, space: usize) -> usize {
        let time = now();
        let mut kept = 0;
        for (index, received) in self.received.iter().enumerate() {
            let slot = &mut slots[index];
            let whole = if received.len > space { Err(PortReason::RxOversize) } else { Ok(()) };
            let outcome = undo_offloads(slot, &received.vnet_header, received.vlan).and(whole);
            match outcome {
                Ok(()) => {
                    slot.ingress_port = id;
                    slot.received_at = time;
                    self.counters.received.add(slot.len());
                    slots.swap(kept, index);
                    kept += 1;
                }
                Err(reason) => self.counters.drops.add(reason, received.len),
            }
        }
        kept
    }

    /// Counts why the first of `packets` could not be sent, and returns how many packets that reason concerns.
    fn refuse(&mut self, packets: &[&Packet], error: &io::Error) -> usize {
        let (reason, concerned) = match error.raw_os_error() {
            Some(libc::EAGAIN | libc::ENOBUFS) => (PortReason::TxQueueFull, packets.len()),
            Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV) => (PortReason::TxPortDown, packets.len()),
            Some(libc::EMSGSIZE) => (PortReason::TxMtu, 1),
            _ => (PortReason::TxError, 1),
        };
        for packet in &packets[..concerned] {
            self.counters.drops.add(reason, packet.len());
        }
        concerned
    }

    /// Sends up to [`VECTOR`] packets that are of sendable size.
    fn send_vector(&mut self, packets: &[&Packet]) -> usize {
        let mut done = 0;
        let (mut sent, mut unreceived) = (0, false);
        let mut pending_errors = [libc::ENETDOWN, libc::EINVAL].map(Some);
        while done < packets.len() {
            match self.socket.send(&packets[done..]) {
                Ok(count) => {
                    for packet in &packets[done..done + count] {
                        self.counters.sent.add(packet.len());
                        self.taken.add(packet.len());
                    }
                    sent += count;
                    // The kernel sends at least one or reports an error; were it not so, this must not loop for ever.
                    done += count.max(1);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // What happened before is reported late, to whoever asks first: that the interface was once down, and may be up again, or that a packet could not be
                // received.
                Err(error) if take(&mut pending_errors, error.raw_os_error()) => {
                    unreceived |= error.raw_os_error() == Some(libc::EINVAL);
                }
                // It is about this packet.
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) && unreceived => {
                    unreceived = false;
                    done += self.refuse(&packets[done..], &error);
                }
                Err(error) => done += self.refuse(&packets[done..], &error),
            }
        }
        self.counters.drops.add_packets(PortReason::RxSegmentationOffload, u64::from(unreceived));
        sent
    }

    /// Counts what the device has dropped of what it took. Others may send there, too: no more than this port has sent.
    fn ask_device(&mut self) {
        let mut taken = std::mem::take(&mut self.taken);
        let Some(device) = &mut self.device else { return };
        let lost = taken.take_part(device.take());
        if lost.is_zero() {
            return;
        }
        let is_up = self.watch.as_ref().is_some_and(|watch| watch.is_up() == Some(true));
        let reason = if is_up { PortReason::TxError } else { PortReason::TxPortDown };
        self.counters.drops.add_counter(reason, lost);
        self.counters.sent = self.counters.sent.since(lost);
    }
}

/// Whether this is one of the errors, which is none any more then.
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
        let before = batch.len();
        let wanted = batch.room().min(VECTOR);
        for _ in 0..wanted {
            // There is room for as many.
            let _ = batch.push();
        }
        let slots = &mut batch.packets_mut()[before..];
        let space = self.mtu + LINK_HEADERS;
        let outcome = self.socket.receive(slots, space, &mut self.received);
        let kept = match &outcome {
            Ok(()) => self.accept(slots, id, space),
            Err(_) => 0,
        };
        batch.truncate(before + kept);
        match outcome {
            Ok(()) => Ok(kept),
            Err(source) => match source.raw_os_error() {
                Some(libc::EAGAIN | libc::EINTR) => Ok(0),
                // A packet of segments that a virtio_net_hdr cannot describe (tunnelled ones, for example).
                Some(libc::EINVAL) => {
                    self.counters.drops.add_packets(PortReason::RxSegmentationOffload, 1);
                    Ok(0)
                }
                // Reported once when the interface goes down; it may come back. No packet is lost by that.
                Some(libc::ENETDOWN) => Ok(0),
                _ => Err(PortError::Receive { port: self.interface.clone(), source }),
            },
        }
    }

    fn send(&mut self, packets: &mut Outgoing<'_>) -> usize {
        let none = Packet::new();
        let mut vector: [&Packet; VECTOR] = [&none; VECTOR];
        let mut filled = 0;
        let mut sent = 0;
        for packet in packets.iter() {
            if let Some(reason) = unsendable(packet.bytes(), self.mtu) {
                self.counters.drops.add(reason, packet.len());
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

    fn readiness(&self) -> Readiness<'_> {
        Readiness::Wait(self.socket.as_fd())
    }

    fn counters(&mut self) -> &PortCounters {
        self.counters.drops.add_packets(PortReason::RxQueueFull, self.socket.take_drops());
        self.ask_device();
        &self.counters
    }

    fn trouble(&mut self) -> Option<Trouble> {
        let port = || self.interface.clone();
        match self.watch.as_ref()?.is_up() {
            None => Some(Trouble::InterfaceGone { port: port(), interface: port() }),
            Some(false) => Some(Trouble::LinkDown { port: port() }),
            Some(true) => None,
        }
    }

    fn hand_over(&mut self) -> Option<HandOver> {
        let counters = CountersForm::of(self.counters());
        let (interface, index, mtu) = (self.interface.clone(), self.socket.index(), self.mtu as u64);
        let descriptors: Vec<_> =
            std::iter::once(self.socket.as_fd()).chain(self.device.as_ref().map(DeviceDrops::as_fd)).collect();
        HandOver::new(Kind::Raw, &Described { interface, index, mtu, counters }, &descriptors)
    }
}
