//! Ports in memory: each of two ends receives the packets that the other one sends. For tests, and
//! between components of one process.

use crate::port::now;
use crate::sys::EventFd;
use crate::{Port, PortError, Readiness, TxBatch};
use packet::{Batch, Packet, PacketTooLong, PortCounters, PortId, PortReason};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;

/// Queue of one direction of a pair.
struct MemoryQueue {
    state: Mutex<QueueState>,
    /// Readable while packets are queued.
    event: EventFd,
    capacity: usize,
}

#[derive(Default)]
struct QueueState {
    waiting: VecDeque<Packet>,
    /// Empty packets, kept to reuse their buffers.
    spare: Vec<Packet>,
}

impl MemoryQueue {
    fn new(capacity: usize) -> Result<MemoryQueue, PortError> {
        let event = EventFd::new().map_err(PortError::Event)?;
        Ok(MemoryQueue { state: Mutex::new(QueueState::default()), event, capacity: capacity.max(1) })
    }

    /// Copies a packet to the queue. Returns false if the queue is full.
    fn enqueue(&self, packet: &Packet) -> bool {
        let mut state = self.state.lock();
        if state.waiting.len() >= self.capacity {
            return false;
        }
        let mut slot = state.spare.pop().unwrap_or_default();
        slot.copy_from(packet);
        state.waiting.push_back(slot);
        self.event.signal();
        true
    }

    /// Takes the oldest packet. Clears the event with the last one.
    fn take(&self) -> Option<Packet> {
        let mut state = self.state.lock();
        let packet = state.waiting.pop_front();
        if state.waiting.is_empty() {
            self.event.clear();
        }
        packet
    }
}

/// One end of a pair that [`pair`] created.
pub struct MemoryPort {
    name: String,
    mtu: usize,
    inbound: Arc<MemoryQueue>,
    outbound: Arc<MemoryQueue>,
    counters: PortCounters,
}

/// Creates two connected ports. Each direction holds up to `capacity` packets; further ones are
/// dropped as [`PortReason::TxQueueFull`]. The MTU is 1500 (see [`MemoryPort::with_mtu`]).
pub fn pair(first: &str, second: &str, capacity: usize) -> Result<(MemoryPort, MemoryPort), PortError> {
    let to_second = Arc::new(MemoryQueue::new(capacity)?);
    let to_first = Arc::new(MemoryQueue::new(capacity)?);
    let port = |name: &str, inbound: &Arc<MemoryQueue>, outbound: &Arc<MemoryQueue>| MemoryPort {
        name: name.to_owned(),
        mtu: 1500,
        inbound: Arc::clone(inbound),
        outbound: Arc::clone(outbound),
        counters: PortCounters::default(),
    };
    Ok((port(first, &to_first, &to_second), port(second, &to_second, &to_first)))
}

impl MemoryPort {
    /// Sets the MTU in bytes.
    pub fn with_mtu(self, mtu: usize) -> MemoryPort {
        MemoryPort { mtu, ..self }
    }

    /// Sends one packet of these bytes with the current time. Returns whether it was sent.
    pub fn send_bytes(&mut self, bytes: &[u8]) -> Result<bool, PacketTooLong> {
        let mut packet = Packet::from_bytes(bytes)?;
        packet.rx_time_ns = now();
        Ok(self.send(&mut TxBatch::copies_of(&[&packet])) == 1)
    }

    /// Returns the oldest queued packet, with the time that it had when it was sent.
    pub fn take(&mut self) -> Option<Packet> {
        let packet = self.inbound.take()?;
        self.counters.received.count_packet(packet.len());
        Some(packet)
    }
}

impl Port for MemoryPort {
    fn name(&self) -> &str {
        &self.name
    }

    fn mtu(&self) -> usize {
        self.mtu
    }

    /// Receives packets with the times that they had when they were sent, so that a test controls
    /// them.
    fn receive(&mut self, id: PortId, batch: &mut Batch) -> Result<usize, PortError> {
        let mut count = 0;
        let mut state = self.inbound.state.lock();
        while batch.remaining_capacity() > 0 {
            let Some(mut packet) = state.waiting.pop_front() else { break };
            packet.ingress_port = id;
            self.counters.received.count_packet(packet.len());
            // Does not fail, because the batch has capacity. The swap returns the slot's old
            // buffer, which the sender reuses.
            if batch.push_swap(&mut packet).is_ok() {
                count += 1;
            }
            state.spare.push(packet);
        }
        if state.waiting.is_empty() {
            self.inbound.event.clear();
        }
        Ok(count)
    }

    /// Moves copies of the packets to the queue of the other end. A full queue drops them.
    fn send(&mut self, packets: &mut TxBatch<'_>) -> usize {
        let mut sent = 0;
        for packet in packets.iter() {
            if let Some(reason) = crate::nic_offload::tx_drop_reason(packet, self.mtu) {
                self.counters.drops.count_drop(reason, packet.len());
            } else if self.outbound.enqueue(packet) {
                self.counters.sent.count_packet(packet.len());
                sent += 1;
            } else {
                self.counters.drops.count_drop(PortReason::TxQueueFull, packet.len());
            }
        }
        sent
    }

    fn readiness(&self) -> Readiness<'_> {
        Readiness::Wait(self.inbound.event.as_fd())
    }

    fn counters(&mut self) -> &PortCounters {
        &self.counters
    }
}
