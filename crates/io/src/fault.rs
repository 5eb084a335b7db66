//! A port that injects the faults of bad networks.

use crate::{Port, PortError, PortFault, Readiness, TxBatch, TxOffloads};
use fastrand::Rng;
use packet::{Batch, DropCounters, Packet, PortCounters, PortId, PortReason};
use std::collections::VecDeque;

/// Fault rates, per million packets. Each fault is decided independently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FaultRates {
    /// The packet is dropped and counted as [`PortReason::FaultInjected`].
    pub drop: u32,
    /// One bit is flipped.
    pub corrupt: u32,
    /// The packet is truncated to a random length, possibly to 0.
    pub truncate: u32,
    /// The packet is duplicated.
    pub duplicate: u32,
    /// The packet follows the next one. If there is none, it is released at the next receive or
    /// send.
    pub reorder: u32,
}

/// Injects faults into packets that are received from or sent to the inner port. The same seed
/// produces the same faults for the same packets.
pub struct FaultInjector<P> {
    inner: P,
    receiving: FaultDirection,
    sending: FaultDirection,
    incoming: Batch,
    outgoing: Vec<Packet>,
    injected: DropCounters,
    /// The counters of the inner port plus `injected`, as of the last query.
    counters: PortCounters,
}

/// The faults of one direction. Each direction has its own random numbers, so that sent packets do
/// not affect the faults of received ones.
struct FaultDirection {
    rates: FaultRates,
    rng: Rng,
    /// A packet that the next one will overtake.
    held: Option<Packet>,
    /// Output packets, in order.
    ready: VecDeque<Packet>,
}

impl FaultDirection {
    fn draw_fault(&mut self, rate: u32) -> bool {
        self.rng.u32(0..1_000_000) < rate
    }

    /// Applies faults to a packet and appends the result to `ready`. Returns whether it was
    /// dropped.
    fn apply_faults(&mut self, packet: &Packet) -> bool {
        if self.draw_fault(self.rates.drop) {
            return true;
        }
        let mut packet = packet.clone();
        if self.draw_fault(self.rates.corrupt) && !packet.is_empty() {
            let bit = self.rng.usize(0..packet.len() * 8);
            packet.bytes_mut()[bit / 8] ^= 1 << (bit % 8);
        }
        if self.draw_fault(self.rates.truncate) {
            packet.truncate(self.rng.usize(0..=packet.len()));
        }
        // The duplicate follows the original, unless that one is held back.
        let copy = self.draw_fault(self.rates.duplicate).then(|| packet.clone());
        if self.held.is_none() && self.draw_fault(self.rates.reorder) {
            self.held = Some(packet);
        } else {
            self.ready.push_back(packet);
            self.release_held();
        }
        self.ready.extend(copy);
        false
    }

    fn release_held(&mut self) {
        self.ready.extend(self.held.take());
    }
}

impl<P: Port> FaultInjector<P> {
    /// Creates a port that injects faults at these rates in both directions.
    pub fn new(inner: P, rates: FaultRates, seed: u64) -> FaultInjector<P> {
        let direction = |seed| FaultDirection { rates, rng: Rng::with_seed(seed), held: None, ready: VecDeque::new() };
        FaultInjector {
            inner,
            receiving: direction(seed),
            // A different seed for the other direction.
            sending: direction(!seed),
            incoming: Batch::new(),
            outgoing: Vec::new(),
            injected: DropCounters::default(),
            counters: PortCounters::default(),
        }
    }

    /// Returns the inner port.
    pub fn inner(&mut self) -> &mut P {
        &mut self.inner
    }
}

impl<P: Port> Port for FaultInjector<P> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn mtu(&self) -> usize {
        self.inner.mtu()
    }

    /// Receives from the inner port and delivers the packets after their faults. A packet that is
    /// held back for reordering is released when the inner port has no more.
    fn receive(&mut self, id: PortId, batch: &mut Batch) -> Result<usize, PortError> {
        // Receive more only after all packets were delivered, so that memory is bounded.
        if self.receiving.ready.is_empty() {
            self.incoming.clear();
            if self.inner.receive(id, &mut self.incoming)? == 0 {
                self.receiving.release_held();
            }
            for packet in self.incoming.packets() {
                if self.receiving.apply_faults(packet) {
                    self.injected.count_drop(PortReason::FaultInjected, packet.len());
                }
            }
        }
        let mut count = 0;
        while batch.remaining_capacity() > 0 {
            let Some(mut packet) = self.receiving.ready.pop_front() else { break };
            if batch.push_swap(&mut packet).is_ok() {
                count += 1;
            }
        }
        Ok(count)
    }

    /// Sends the packets after their faults.
    fn send(&mut self, packets: &mut TxBatch<'_>) -> usize {
        for packet in packets.iter() {
            if self.sending.apply_faults(packet) {
                self.injected.count_drop(PortReason::FaultInjected, packet.len());
            }
        }
        // A packet that is held back stays until the next call, which can overtake it.
        self.outgoing.clear();
        self.outgoing.extend(self.sending.ready.drain(..));
        self.inner.send(&mut TxBatch::of(&mut self.outgoing))
    }

    fn tx_offloads(&self) -> TxOffloads {
        self.inner.tx_offloads()
    }

    fn readiness(&self) -> Readiness<'_> {
        if self.receiving.ready.is_empty() && self.receiving.held.is_none() {
            self.inner.readiness()
        } else {
            Readiness::Now
        }
    }

    /// Returns the counters of the inner port plus the injected drops.
    fn counters(&mut self) -> &PortCounters {
        self.counters.clone_from(self.inner.counters());
        self.counters.drops += &self.injected;
        &self.counters
    }

    fn port_fault(&mut self) -> Option<PortFault> {
        self.inner.port_fault()
    }
}
