//! Ports in memory: two ends, each of which receives what the other sends. For tests, and between parts of one process.

use crate::port::now;
use crate::sys::EventFd;
use crate::{Outgoing, Port, PortError, Readiness};
use packet::{Batch, Packet, PacketTooLong, PortCounters, PortId, PortReason};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;

/// What the ports of a pair share, one per direction.
struct Queue {
    state: Mutex<QueueState>,
    /// Readable while packets wait.
    event: EventFd,
    capacity: usize,
}

#[derive(Default)]
struct QueueState {
    waiting: VecDeque<Packet>,
    /// Emptied packets, kept for their buffers.
    spare: Vec<Packet>,
}

impl Queue {
    fn new(capacity: usize) -> Result<Queue, PortError> {
        let event = EventFd::new().map_err(PortError::Event)?;
        Ok(Queue { state: Mutex::new(QueueState::default()), event, capacity: capacity.max(1) })
    }

    /// Whether there was room.
    fn put(&self, packet: &Packet) -> bool {
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

    fn take(&self) -> Option<Packet> {
        let mut state = self.state.lock();
        let packet = state.waiting.pop_front();
        if state.waiting.is_empty() {
            self.event.clear();
        }
        packet
    }
}

/// One end of a pair made by [`pair`].
pub struct MemoryPort {
    name: String,
    mtu: usize,
    inbound: Arc<Queue>,
    outbound: Arc<Queue>,
    counters: PortCounters,
}

/// Two ports: what is sent on the one is received on the other. Each direction holds up to `capacity` packets; what is sent beyond
/// that is counted as [`PortReason::TxQueueFull`]. The MTU is 1500 (see [`MemoryPort::with_mtu`]).
pub fn pair(first: &str, second: &str, capacity: usize) -> Result<(MemoryPort, MemoryPort), PortError> {
    let there = Arc::new(Queue::new(capacity)?);
    let back = Arc::new(Queue::new(capacity)?);
    let port = |name: &str, inbound: &Arc<Queue>, outbound: &Arc<Queue>| MemoryPort {
        name: name.to_owned(),
        mtu: 1500,
        inbound: Arc::clone(inbound),
        outbound: Arc::clone(outbound),
        counters: PortCounters::default(),
    };
    Ok((port(first, &back, &there), port(second, &there, &back)))
}

impl MemoryPort {
    /// The same port with another MTU in bytes.
    pub fn with_mtu(self, mtu: usize) -> MemoryPort {
        MemoryPort { mtu, ..self }
    }

    /// Sends one packet of these bytes; whether it was sent. Marked with the present time.
    pub fn send_bytes(&mut self, bytes: &[u8]) -> Result<bool, PacketTooLong> {
        let mut packet = Packet::from_bytes(bytes)?;
        packet.received_at = now();
        Ok(self.send(&mut Outgoing::copies_of(&[&packet])) == 1)
    }

    /// The oldest packet that waits to be received, with the time at which the other end got it.
    pub fn take(&mut self) -> Option<Packet> {
        let packet = self.inbound.take()?;
        self.counters.received.add(packet.len());
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

    /// Packets keep the time that they had when they were sent: a test decides what time it is.
    fn receive(&mut self, id: PortId, batch: &mut Batch) -> Result<usize, PortError> {
        let mut count = 0;
        let mut state = self.inbound.state.lock();
        while batch.room() > 0 {
            let Some(mut packet) = state.waiting.pop_front() else { break };
            packet.ingress_port = id;
            self.counters.received.add(packet.len());
            // There is room, so this does not fail; the slot's old buffer comes back for the sender.
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

    fn send(&mut self, packets: &mut Outgoing<'_>) -> usize {
        let mut sent = 0;
        for packet in packets.iter() {
            if let Some(reason) = crate::offload::unsendable(packet.bytes(), self.mtu) {
                self.counters.drops.add(reason, packet.len());
            } else if self.outbound.put(packet) {
                self.counters.sent.add(packet.len());
                sent += 1;
            } else {
                self.counters.drops.add(PortReason::TxQueueFull, packet.len());
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
