//! A queue of a DPDK device as a port.

use super::eth::{BURST, Losses, Queue};
use super::mbuf::{Arrived, CopyFailure, Leaving};
use super::open::{self, Opened};
use super::ring_drops::RingDrops;
use super::{DpdkOptions, eal};
use crate::dropped::DeviceDrops;
use crate::offload::unsendable;
use crate::port::now;
use crate::sys::InterfaceWatch;
use crate::{Outgoing, Port, PortError, Readiness, Trouble};
use packet::{Batch, Counter, Packet, PortCounters, PortId, PortReason};
use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Virtual devices whose link is that to a process at the other end.
const WITH_PEER: [&str; 3] = ["net_memif", "net_vhost", "net_virtio_user"];

/// How long a memif client that has connected is left alone. To start it again sooner would break off a handshake that has just begun, after which DPDK
/// 22.11's server ends its process: it closes the connection's descriptor and still waits for it. A server that has much to do takes its time.
const HANDSHAKE: Duration = Duration::from_secs(5);

/// How soon a memif client that has found nobody to connect to is started again.
const AGAIN: Duration = Duration::from_millis(500);

/// How long a memif client is left alone after it was started.
fn patience(queue: &Queue) -> Duration {
    if queue.is_started() { HANDSHAKE } else { AGAIN }
}

/// One queue of a DPDK device: what one worker needs of it.
///
/// Packets keep the device's own buffer from the port that received them to the port that sends them (see [`super`]).
pub struct DpdkPort {
    name: String,
    driver: String,
    queue: Queue,
    mtu: usize,
    longest: usize,
    segments: u16,
    interface: Option<Arc<InterfaceWatch>>,
    /// What its interface drops though it has taken it; of the first queue.
    dropped: Option<DeviceDrops>,
    /// What the device took since the interface was asked last.
    taken: Counter,
    /// The device can wake a sleeper.
    interrupts: bool,
    /// It has to be started again when the other end was gone: not before this.
    revives: Option<Instant>,
    /// It has been asked to.
    armed: Cell<bool>,
    /// The device takes packets although they cannot get anywhere, as found out when last asked for trouble.
    cut_off: bool,
    leaving: Vec<Leaving>,
    /// What the device had counted when last asked.
    losses: Losses,
    /// What the rings of a driver had no room for that does not count it.
    ring_drops: Option<RingDrops>,
    counters: PortCounters,
}

impl DpdkPort {
    /// Opens a device with one queue, whatever `options` say of queues. The device string is described at [`super::DpdkDevice::parse`].
    ///
    /// # Errors
    /// What is missing or refused, with the mend. Everything that was begun is undone.
    pub fn open(device: &str, options: &DpdkOptions) -> Result<DpdkPort, PortError> {
        let options = DpdkOptions { queues: 1, ..options.clone() };
        // One was asked for, so one is there.
        DpdkPort::open_queues(device, &options).map(|mut queues| queues.remove(0))
    }

    /// Opens a device with as many queues as `options` say. Each is for one worker; the device spreads packets over them so that those of a flow stay
    /// together. The device is closed when the last of them is dropped.
    ///
    /// # Errors
    /// As [`DpdkPort::open`].
    pub fn open_queues(device: &str, options: &DpdkOptions) -> Result<Vec<DpdkPort>, PortError> {
        let Opened { info, queues, mtu, longest, segments, interface, revives, mut ring_drops } =
            open::open(device, options)?;
        let name = device.split(',').next().unwrap_or(device);
        let several = queues.len() > 1;
        let port = |queue: Queue| DpdkPort {
            name: if several { format!("{name}.{}", queue.index()) } else { name.to_owned() },
            driver: info.driver.clone(),
            revives: revives.then(|| Instant::now() + patience(&queue)),
            queue,
            mtu,
            longest,
            segments,
            interface: interface.clone(),
            dropped: drops(interface.as_deref(), &info.driver, several),
            taken: Counter::default(),
            interrupts: info.interrupts,
            armed: Cell::new(false),
            cut_off: false,
            leaving: Vec::with_capacity(BURST),
            losses: Losses::default(),
            // What a device loses is counted at its first queue.
            ring_drops: ring_drops.take(),
            counters: PortCounters::default(),
        };
        Ok(queues.into_iter().map(port).collect())
    }

    /// The same port under another name, for example that of the interface that it is on.
    pub fn named(self, name: &str) -> DpdkPort {
        DpdkPort { name: name.to_owned(), ..self }
    }

    /// The name of the device's driver.
    pub fn driver(&self) -> &str {
        &self.driver
    }

    /// Sends what is ready, and counts what the device does not take.
    fn flush(&mut self) -> usize {
        let mut sent = 0;
        let mut bytes: usize = self.leaving.iter().map(Leaving::len).sum();
        while !self.leaving.is_empty() {
            let count = self.queue.send(&mut self.leaving);
            if count == 0 {
                break;
            }
            sent += count;
        }
        if !self.leaving.is_empty() {
            let reason =
                if self.queue.device().link_is_up() { PortReason::TxQueueFull } else { PortReason::TxPortDown };
            for packet in self.leaving.drain(..) {
                bytes -= packet.len();
                self.counters.drops.add(reason, packet.len());
            }
        }
        let sent_now = Counter { packets: sent as u64, bytes: bytes as u64 };
        self.taken += sent_now;
        self.counters.sent += sent_now;
        sent
    }

    /// The packet as an mbuf: its own where it leaves for the last time, else a copy. `None` if it cannot be sent, which is counted.
    #[inline]
    fn leaving(&mut self, packets: &mut Outgoing<'_>, index: usize) -> Option<Leaving> {
        let packet = packets.get(index);
        if let Some(reason) = unsendable(packet.bytes(), self.mtu) {
            self.counters.drops.add(reason, packet.len());
            return None;
        }
        if let Some(leaving) = packets.take(index).and_then(Leaving::take) {
            return Some(leaving);
        }
        let packet = packets.get(index);
        match Leaving::copy_of(packet.bytes(), self.queue.pool(), self.segments) {
            Ok(leaving) => {
                self.counters.copied.add(packet.len());
                Some(leaving)
            }
            Err(failure) => {
                let reason = match failure {
                    CopyFailure::NoBuffer => PortReason::TxNoBuffer,
                    CopyFailure::TooLong => PortReason::TxMtu,
                };
                self.counters.drops.add(reason, packet.len());
                None
            }
        }
    }

    /// Whether the port's interface, device or peer is there.
    fn missing(&self) -> Option<Trouble> {
        let port = || self.name.clone();
        if self.queue.device().is_removed() {
            return Some(Trouble::DeviceGone { port: port() });
        }
        if let Some(interface) = &self.interface {
            return match interface.is_up() {
                None => Some(Trouble::InterfaceGone { port: port(), interface: interface.name().to_owned() }),
                Some(false) => Some(Trouble::LinkDown { port: port() }),
                Some(true) => None,
            };
        }
        if self.queue.device().link_is_up() {
            return None;
        }
        match WITH_PEER.contains(&self.driver.as_str()) {
            true => Some(Trouble::NoPeer { port: port() }),
            false => Some(Trouble::LinkDown { port: port() }),
        }
    }
}

/// What an interface drops that sockets of DPDK's send on; of one queue, as nothing says which queue's packets they were.
fn drops(interface: Option<&InterfaceWatch>, driver: &str, several: bool) -> Option<DeviceDrops> {
    DeviceDrops::of(interface.filter(|_| driver == "net_af_packet" && !several)?.name())
}

/// Puts a packet that arrived into a slot of a batch.
#[inline]
fn accept(
    mut arrived: Arrived,
    slot: &mut Packet,
    longest: usize,
    counters: &mut PortCounters,
) -> Result<(), PortReason> {
    let len = arrived.len();
    if len > longest {
        return Err(if arrived.segments() > 1 { PortReason::RxSegments } else { PortReason::RxOversize });
    }
    let tags: [u16; 2] = match *arrived.tags() {
        [] => return place(arrived, slot, counters),
        [tag] => [tag, 0],
        [outer, inner, ..] => [outer, inner],
    };
    let count = arrived.tags().len();
    if arrived.segments() > 1 {
        arrived.linearise();
    }
    place(arrived, slot, counters)?;
    restore_tags(slot, &tags[..count])
}

#[inline]
fn place(mut arrived: Arrived, slot: &mut Packet, counters: &mut PortCounters) -> Result<(), PortReason> {
    let len = arrived.len();
    let chain = arrived.segments() > 1;
    if arrived.can_be_lent() || (chain && arrived.linearise() && arrived.can_be_lent()) {
        let (loan, start, len) = arrived.lend().ok_or(PortReason::RxError)?;
        slot.lend(loan, start, len).map_err(|_| PortReason::RxError)?;
    } else {
        let space = slot.receive_space(len).map_err(|_| PortReason::RxOversize)?;
        // A driver that reports more than the segments hold must not make old bytes visible.
        if arrived.copy_to(space) != len {
            return Err(PortReason::RxError);
        }
        slot.received(len);
    }
    if chain {
        counters.linearised.add(len);
    }
    Ok(())
}

/// Puts VLAN tags back that the device took out, outer first. With two, the outer one is a service tag (IEEE 802.1ad).
fn restore_tags(packet: &mut Packet, tags: &[u16]) -> Result<(), PortReason> {
    let added = 4 * tags.len();
    if packet.len() < 12 {
        return Err(PortReason::RxError);
    }
    packet.prepend(added).map_err(|_| PortReason::RxOversize)?;
    let bytes = packet.bytes_mut();
    bytes.copy_within(added..added + 12, 0);
    for (place, tag) in tags.iter().enumerate() {
        let kind: u16 = if tags.len() == 2 && place == 0 { 0x88a8 } else { 0x8100 };
        let at = 12 + 4 * place;
        bytes[at..at + 2].copy_from_slice(&kind.to_be_bytes());
        bytes[at + 2..at + 4].copy_from_slice(&tag.to_be_bytes());
    }
    Ok(())
}

impl Port for DpdkPort {
    fn name(&self) -> &str {
        &self.name
    }

    fn mtu(&self) -> usize {
        self.mtu
    }

    /// Takes what is there, as far as the batch has room. The clock is read once.
    fn receive(&mut self, id: PortId, batch: &mut Batch) -> Result<usize, PortError> {
        eal::know_thread();
        let before = batch.len();
        let mut time = None;
        loop {
            let wanted = batch.room().min(BURST);
            if wanted == 0 {
                break;
            }
            let DpdkPort { queue, counters, longest, .. } = self;
            let received = queue.receive(wanted, |arrived| {
                let time = *time.get_or_insert_with(now);
                let len = arrived.len();
                // No more than there is room for.
                let Ok(slot) = batch.push() else { return };
                match accept(arrived, slot, *longest, counters) {
                    Ok(()) => {
                        slot.ingress_port = id;
                        slot.received_at = time;
                        counters.received.add(slot.len());
                    }
                    Err(reason) => {
                        counters.drops.add(reason, len);
                        batch.truncate(batch.len() - 1);
                    }
                }
            });
            // Drivers that give fewer than they were asked for have no more, or soon have no more.
            if received < wanted.min(32) {
                break;
            }
        }
        if batch.len() > before && self.armed.replace(false) {
            self.queue.disarm();
        }
        Ok(batch.len() - before)
    }

    fn send(&mut self, packets: &mut Outgoing<'_>) -> usize {
        eal::know_thread();
        if self.cut_off {
            for packet in packets.iter() {
                self.counters.drops.add(PortReason::TxPortDown, packet.len());
            }
            return 0;
        }
        let mut sent = 0;
        for index in 0..packets.len() {
            if let Some(leaving) = self.leaving(packets, index) {
                self.leaving.push(leaving);
                if self.leaving.len() == BURST {
                    sent += self.flush();
                }
            }
        }
        sent + self.flush()
    }

    fn readiness(&self) -> Readiness<'_> {
        if !self.interrupts {
            return Readiness::Poll;
        }
        self.armed.set(true);
        self.queue.arm().map_or(Readiness::Poll, Readiness::Wait)
    }

    /// What the device itself lost is counted at its first queue.
    fn counters(&mut self) -> &PortCounters {
        if self.queue.index() == 0 {
            let losses = self.queue.device().losses();
            let more = |now: u64, before: u64| now.saturating_sub(before);
            let drops = &mut self.counters.drops;
            drops.add_packets(PortReason::RxQueueFull, more(losses.missed, self.losses.missed));
            drops.add_packets(PortReason::RxQueueFull, self.ring_drops.as_ref().map_or(0, RingDrops::take));
            drops.add_packets(PortReason::RxError, more(losses.broken, self.losses.broken));
            drops.add_packets(PortReason::RxNoBuffer, more(losses.no_buffer, self.losses.no_buffer));
            // The device took them first, so they were counted as sent.
            let unsent = more(losses.unsent, self.losses.unsent);
            self.counters.unsend(PortReason::TxError, unsent);
            self.losses = losses;
        }
        let mut taken = std::mem::take(&mut self.taken);
        let lost = taken.take_part(self.dropped.as_mut().map_or(0, DeviceDrops::take));
        if !lost.is_zero() {
            let is_up = self.interface.as_ref().is_some_and(|interface| interface.is_up() == Some(true));
            let reason = if is_up { PortReason::TxError } else { PortReason::TxPortDown };
            self.counters.drops.add_counter(reason, lost);
            self.counters.sent = self.counters.sent.since(lost);
        }
        &self.counters
    }

    fn trouble(&mut self) -> Option<Trouble> {
        let mut trouble = self.missing();
        if matches!(trouble, Some(Trouble::NoPeer { .. })) && self.revives.is_some_and(|next| Instant::now() >= next) {
            self.queue.revive();
            self.revives = Some(Instant::now() + patience(&self.queue));
            trouble = self.missing();
        } else if trouble.is_none() && self.revives.is_some() {
            // Its handshake is done: when this peer goes, the next may be there at once.
            self.revives = Some(Instant::now());
        }
        // A peer that is not there takes no packets, and may come at any moment.
        self.cut_off = !matches!(trouble, None | Some(Trouble::NoPeer { .. }));
        trouble
    }
}
