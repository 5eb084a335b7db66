//! A queue of a DPDK device as a port.

use super::eth::{BURST, DeviceQueue, EthDropCounters};
use super::mbuf::{CopyFailure, RxMbuf, TxMbuf};
use super::open::{self, OpenedDevice};
use super::ring_drops::RingDrops;
use super::{DpdkOptions, eal};
use crate::device_drops::DeviceDrops;
use crate::nic_offload::tx_drop_reason;
use crate::port::now;
use crate::sys::InterfaceWatch;
use crate::{KernelInterface, Port, PortError, PortFault, Readiness, TxBatch};
use packet::{Batch, Counter, Packet, PortCounters, PortId, PortReason};
use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Virtual devices with a link to a process at the other end.
const WITH_PEER: [&str; 3] = ["net_memif", "net_vhost", "net_virtio_user"];

/// Minimum time between restarts of a connected memif client. An earlier restart could interrupt a
/// handshake, and then DPDK 22.11's server process exits: it closes the connection's descriptor and
/// still waits on it. A busy server needs time for the handshake.
const HANDSHAKE: Duration = Duration::from_secs(5);

/// Minimum time between restarts of a memif client that found no server.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// Returns the minimum time until the next restart of a memif client.
fn restart_delay(queue: &DeviceQueue) -> Duration {
    if queue.is_started() { HANDSHAKE } else { RETRY_INTERVAL }
}

/// One queue of a DPDK device, used by one worker.
///
/// Packets keep the device's buffer from the receiving to the sending port (see [`super`]).
pub struct DpdkPort {
    name: String,
    driver: String,
    queue: DeviceQueue,
    mtu: usize,
    max_frame: usize,
    segments: u16,
    interface: Option<Arc<InterfaceWatch>>,
    /// Packets that its interface dropped after it accepted them; only at the first queue.
    dropped: Option<DeviceDrops>,
    /// Packets that the device accepted since the last query of the interface.
    taken: Counter,
    /// Whether the device supports receive interrupts.
    interrupts: bool,
    /// Earliest time of the next restart, if the device must be restarted after its peer exited.
    reopens: Option<Instant>,
    /// Whether the receive interrupt is enabled.
    armed: Cell<bool>,
    /// Whether the device accepts packets that it cannot transmit, as of the last query of its
    /// faults.
    cannot_transmit: bool,
    /// Prepared packets that were not passed to the device yet.
    leaving: Vec<TxMbuf>,
    /// The device's drop counters as of the last query.
    drop_counters: EthDropCounters,
    /// Counter of packets that the rings dropped, if the driver does not count them.
    ring_drops: Option<RingDrops>,
    counters: PortCounters,
}

impl DpdkPort {
    /// Opens a device with one queue, ignoring the number of queues in `options`. See
    /// [`super::DpdkDevice::parse`] for the device string.
    ///
    /// # Errors
    /// A requirement is missing or refused; the error describes the fix. All started operations are
    /// undone.
    pub fn open(device: &str, options: &DpdkOptions) -> Result<DpdkPort, PortError> {
        let options = DpdkOptions { queues: 1, ..options.clone() };
        // One queue was requested, so one exists.
        DpdkPort::open_queues(device, &options).map(|mut queues| queues.remove(0))
    }

    /// Opens a device with the number of queues of `options`. Each queue is for one worker; the
    /// device distributes packets over them and keeps a flow on one queue. Dropping the last queue
    /// closes the device.
    ///
    /// # Errors
    /// The same as for [`DpdkPort::open`].
    pub fn open_queues(device: &str, options: &DpdkOptions) -> Result<Vec<DpdkPort>, PortError> {
        let OpenedDevice { info, queues, mtu, max_frame, segments, interface, reopens, mut ring_drops } =
            open::open(device, options)?;
        let name = device.split(',').next().unwrap_or(device);
        let has_several_queues = queues.len() > 1;
        let queue_port = |queue: DeviceQueue| DpdkPort {
            name: if has_several_queues { format!("{name}.{}", queue.index()) } else { name.to_owned() },
            driver: info.driver.clone(),
            reopens: reopens.then(|| Instant::now() + restart_delay(&queue)),
            queue,
            mtu,
            max_frame,
            segments,
            interface: interface.clone(),
            dropped: interface_drops(interface.as_deref(), &info.driver, has_several_queues),
            taken: Counter::default(),
            interrupts: info.interrupts,
            armed: Cell::new(false),
            cannot_transmit: false,
            leaving: Vec::with_capacity(BURST),
            drop_counters: EthDropCounters::default(),
            // Drops of the device are counted at its first queue.
            ring_drops: ring_drops.take(),
            counters: PortCounters::default(),
        };
        Ok(queues.into_iter().map(queue_port).collect())
    }

    /// Renames the port, for example to its interface.
    pub fn named(self, name: &str) -> DpdkPort {
        DpdkPort { name: name.to_owned(), ..self }
    }

    /// Returns the name of the device's driver.
    pub fn driver(&self) -> &str {
        &self.driver
    }

    /// Sends all prepared packets until the device accepts none, and counts the remaining ones as
    /// dropped. Returns the number of accepted packets.
    fn flush(&mut self) -> usize {
        let mut sent = 0;
        let mut sent_bytes: usize = self.leaving.iter().map(TxMbuf::len).sum();
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
                sent_bytes -= packet.len();
                self.counters.drops.count_drop(reason, packet.len());
            }
        }
        let sent_now = Counter { packets: sent as u64, bytes: sent_bytes as u64 };
        self.taken += sent_now;
        self.counters.sent += sent_now;
        sent
    }

    /// Returns the packet as an mbuf: its own buffer at its last transmission, otherwise a copy. If
    /// it cannot be sent, counts it as dropped and returns `None`.
    #[inline]
    fn mbuf_for_packet(&mut self, packets: &mut TxBatch<'_>, index: usize) -> Option<TxMbuf> {
        let packet = packets.get(index);
        if let Some(reason) = tx_drop_reason(packet, self.mtu) {
            self.counters.drops.count_drop(reason, packet.len());
            return None;
        }
        if let Some(mbuf) = packets.take(index).and_then(TxMbuf::take) {
            return Some(mbuf);
        }
        // Borrowed again, because `take` needs the batch mutably.
        let packet = packets.get(index);
        match TxMbuf::copy_bytes(packet.bytes(), self.queue.pool(), self.segments) {
            Ok(mbuf) => {
                self.counters.copied.count_packet(packet.len());
                Some(mbuf)
            }
            Err(failure) => {
                let reason = match failure {
                    CopyFailure::NoBuffer => PortReason::TxNoBuffer,
                    CopyFailure::TooLong => PortReason::TxMtu,
                };
                self.counters.drops.count_drop(reason, packet.len());
                None
            }
        }
    }

    /// Returns why the port cannot pass packets: its interface, device, link or peer.
    fn current_fault(&self) -> Option<PortFault> {
        let port = || self.name.clone();
        if self.queue.device().is_removed() {
            return Some(PortFault::DeviceGone { port: port() });
        }
        if let Some(interface) = &self.interface {
            return match interface.is_up() {
                None => Some(PortFault::InterfaceGone { port: port(), interface: interface.name().to_owned() }),
                Some(false) => Some(PortFault::LinkDown { port: port() }),
                Some(true) => None,
            };
        }
        if self.queue.device().link_is_up() {
            return None;
        }
        match WITH_PEER.contains(&self.driver.as_str()) {
            true => Some(PortFault::NoPeer { port: port() }),
            false => Some(PortFault::LinkDown { port: port() }),
        }
    }
}

/// Returns the counter of packets that an interface drops after DPDK's socket sent them. `None`
/// with several queues, because the drops cannot be attributed to a queue.
fn interface_drops(interface: Option<&InterfaceWatch>, driver: &str, several: bool) -> Option<DeviceDrops> {
    DeviceDrops::of(interface.filter(|_| driver == "net_af_packet" && !several)?.name())
}

/// Moves a received packet into a slot of a batch, and restores the VLAN tags that the device
/// removed. `max_frame` is the maximum length in bytes. The error is the reason of a drop.
#[inline]
fn accept_received(
    mut mbuf: RxMbuf,
    slot: &mut Packet,
    max_frame: usize,
    counters: &mut PortCounters,
) -> Result<(), PortReason> {
    let len = mbuf.len();
    if len > max_frame {
        return Err(if mbuf.segments() > 1 { PortReason::RxSegments } else { PortReason::RxOversize });
    }
    // A copy, because the mbuf is consumed before the tags are restored.
    let tags: [u16; 2] = match *mbuf.tags() {
        [] => return place_packet(mbuf, slot, counters),
        [tag] => [tag, 0],
        [outer, inner, ..] => [outer, inner],
    };
    let tag_count = mbuf.tags().len();
    if mbuf.segments() > 1 {
        mbuf.linearise();
    }
    place_packet(mbuf, slot, counters)?;
    restore_tags(slot, &tags[..tag_count])
}

/// Moves a received packet into a slot without a copy if it can be an external buffer, after its
/// segments were moved into one if necessary. Otherwise copies it to the slot's own buffer.
#[inline]
fn place_packet(mut mbuf: RxMbuf, slot: &mut Packet, counters: &mut PortCounters) -> Result<(), PortReason> {
    let len = mbuf.len();
    let is_chain = mbuf.segments() > 1;
    if mbuf.can_be_external() || (is_chain && mbuf.linearise() && mbuf.can_be_external()) {
        let (loan, start, len) = mbuf.into_external().ok_or(PortReason::RxError)?;
        slot.attach_external(loan, start, len).map_err(|_| PortReason::RxError)?;
    } else {
        let space = slot.receive_space(len).map_err(|_| PortReason::RxOversize)?;
        // A driver that reports more than the segments contain must not expose old bytes of the
        // buffer.
        if mbuf.copy_to(space) != len {
            return Err(PortReason::RxError);
        }
        slot.set_received_len(len);
    }
    if is_chain {
        counters.linearised.count_packet(len);
    }
    Ok(())
}

/// Restores VLAN tags that the device removed, outer first. With two, the outer one is a service
/// tag (IEEE 802.1ad).
fn restore_tags(packet: &mut Packet, tags: &[u16]) -> Result<(), PortReason> {
    let added_len = 4 * tags.len();
    // Less than the two MAC addresses.
    if packet.len() < 12 {
        return Err(PortReason::RxError);
    }
    packet.prepend(added_len).map_err(|_| PortReason::RxOversize)?;
    let bytes = packet.bytes_mut();
    // The two MAC addresses move to the front, before the tags.
    bytes.copy_within(added_len..added_len + 12, 0);
    for (tag_index, tag) in tags.iter().enumerate() {
        let tpid: u16 = if tags.len() == 2 && tag_index == 0 { 0x88a8 } else { 0x8100 };
        let offset = 12 + 4 * tag_index;
        bytes[offset..offset + 2].copy_from_slice(&tpid.to_be_bytes());
        bytes[offset + 2..offset + 4].copy_from_slice(&tag.to_be_bytes());
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

    /// Receives packets up to the capacity of the batch. Reads the clock once.
    fn receive(&mut self, id: PortId, batch: &mut Batch) -> Result<usize, PortError> {
        eal::register_thread();
        let before = batch.len();
        let mut time = None;
        loop {
            let burst_len = batch.remaining_capacity().min(BURST);
            if burst_len == 0 {
                break;
            }
            let DpdkPort { queue, counters, max_frame, .. } = self;
            let received = queue.receive(burst_len, |mbuf| {
                let time = *time.get_or_insert_with(now);
                let len = mbuf.len();
                // Does not fail, because `burst_len` is within the capacity.
                let Ok(slot) = batch.push() else { return };
                match accept_received(mbuf, slot, *max_frame, counters) {
                    Ok(()) => {
                        slot.ingress_port = id;
                        slot.rx_time_ns = time;
                        counters.received.count_packet(slot.len());
                    }
                    Err(reason) => {
                        counters.drops.count_drop(reason, len);
                        batch.truncate(batch.len() - 1);
                    }
                }
            });
            // A driver that returns fewer packets than requested has almost no more.
            if received < burst_len.min(32) {
                break;
            }
        }
        if batch.len() > before && self.armed.replace(false) {
            self.queue.disarm();
        }
        Ok(batch.len() - before)
    }

    /// Hands the packets to the device in bursts. Packets for a device that is known not to
    /// transmit are dropped.
    fn send(&mut self, packets: &mut TxBatch<'_>) -> usize {
        eal::register_thread();
        if self.cannot_transmit {
            for packet in packets.iter() {
                self.counters.drops.count_drop(PortReason::TxPortDown, packet.len());
            }
            return 0;
        }
        let mut sent = 0;
        for index in 0..packets.len() {
            if let Some(mbuf) = self.mbuf_for_packet(packets, index) {
                self.leaving.push(mbuf);
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

    /// Returns the counters. Drops of the device are counted at its first queue.
    fn counters(&mut self) -> &PortCounters {
        if self.queue.index() == 0 {
            let drop_counters = self.queue.device().drop_counters();
            let increase = |now: u64, before: u64| now.saturating_sub(before);
            let drops = &mut self.counters.drops;
            drops.count_drops(PortReason::RxQueueFull, increase(drop_counters.rx_missed, self.drop_counters.rx_missed));
            drops.count_drops(PortReason::RxQueueFull, self.ring_drops.as_ref().map_or(0, RingDrops::take_dropped));
            drops.count_drops(PortReason::RxError, increase(drop_counters.rx_errors, self.drop_counters.rx_errors));
            drops.count_drops(
                PortReason::RxNoBuffer,
                increase(drop_counters.rx_no_buffer, self.drop_counters.rx_no_buffer),
            );
            // The device accepted these before, so they were counted as sent.
            let unsent = increase(drop_counters.unsent, self.drop_counters.unsent);
            self.counters.move_sent_to_drops(PortReason::TxError, unsent);
            self.drop_counters = drop_counters;
        }
        // Drops of the interface can be those of other senders, so at most the packets that this
        // port sent count.
        let mut accepted = std::mem::take(&mut self.taken);
        let interface_drops = accepted.take_packets(self.dropped.as_mut().map_or(0, DeviceDrops::take_dropped));
        if !interface_drops.is_zero() {
            let is_up = self.interface.as_ref().is_some_and(|interface| interface.is_up() == Some(true));
            let reason = if is_up { PortReason::TxError } else { PortReason::TxPortDown };
            self.counters.drops.add_counter(reason, interface_drops);
            self.counters.sent = self.counters.sent.since(interface_drops);
        }
        &self.counters
    }

    fn kernel_interface(&self) -> Option<KernelInterface> {
        // AF_XDP receives before the stack, and other drivers have no interface.
        let interface = self.interface.as_ref().filter(|_| self.driver == "net_af_packet")?;
        KernelInterface::new(interface.name(), interface.as_fd(), None)
    }

    /// Returns the port's fault. Restarts a device whose peer has exited, at most once per
    /// interval, because a memif client does not reconnect by itself.
    fn port_fault(&mut self) -> Option<PortFault> {
        let mut fault = self.current_fault();
        if matches!(fault, Some(PortFault::NoPeer { .. })) && self.reopens.is_some_and(|next| Instant::now() >= next) {
            self.queue.restart();
            self.reopens = Some(Instant::now() + restart_delay(&self.queue));
            fault = self.current_fault();
        } else if fault.is_none() && self.reopens.is_some() {
            // The handshake is complete: when this peer exits, the restart can be immediate.
            self.reopens = Some(Instant::now());
        }
        // A device without a peer accepts no packets, and a peer can connect at any time.
        self.cannot_transmit = !matches!(fault, None | Some(PortFault::NoPeer { .. }));
        fault
    }
}
