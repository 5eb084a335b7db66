//! A port that does to packets what bad networks do.

use crate::{Outgoing, Port, PortError, Readiness, Trouble};
use fastrand::Rng;
use packet::{Batch, DropCounters, Packet, PortCounters, PortId, PortReason};
use std::collections::VecDeque;

/// How often, of a million packets, something happens to a packet. Each is decided on its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FaultRates {
    /// Lost; counted as [`PortReason::FaultInjected`].
    pub drop: u32,
    /// One bit is flipped.
    pub corrupt: u32,
    /// Cut at a random length, possibly to nothing.
    pub truncate: u32,
    /// Comes twice.
    pub duplicate: u32,
    /// Comes after the packet that follows it. If none follows, it comes when the port is next asked.
    pub reorder: u32,
}

/// Injects faults into what is received from, and sent to, the port inside. The same seed gives the same faults for the same
/// packets.
pub struct FaultInjector<P> {
    inner: P,
    receiving: Direction,
    sending: Direction,
    incoming: Batch,
    outgoing: Vec<Packet>,
    injected: DropCounters,
    /// The counters of the port inside together with `injected`, as last asked for.
    counters: PortCounters,
}

/// The faults of one direction. Each has its own random numbers, so that what is sent does not change what happens to what is received.
struct Direction {
    rates: FaultRates,
    rng: Rng,
    /// A packet that waits to be overtaken.
    held: Option<Packet>,
    /// What comes out, in order.
    ready: VecDeque<Packet>,
}

impl Direction {
    fn happens(&mut self, rate: u32) -> bool {
        self.rng.u32(0..1_000_000) < rate
    }

    /// Takes a packet and puts what becomes of it into `ready`; whether it was dropped.
    fn pass(&mut self, packet: &Packet) -> bool {
        if self.happens(self.rates.drop) {
            return true;
        }
        let mut packet = packet.clone();
        if self.happens(self.rates.corrupt) && !packet.is_empty() {
            let bit = self.rng.usize(0..packet.len() * 8);
            packet.bytes_mut()[bit / 8] ^= 1 << (bit % 8);
        }
        if self.happens(self.rates.truncate) {
            packet.truncate(self.rng.usize(0..=packet.len()));
        }
        let copy = self.happens(self.rates.duplicate).then(|| packet.clone());
        if self.held.is_none() && self.happens(self.rates.reorder) {
            self.held = Some(packet);
        } else {
            self.ready.push_back(packet);
            self.release();
        }
        self.ready.extend(copy);
        false
    }

    fn release(&mut self) {
        self.ready.extend(self.held.take());
    }
}

impl<P: Port> FaultInjector<P> {
    /// Injects faults at these rates in both directions.
    pub fn new(inner: P, rates: FaultRates, seed: u64) -> FaultInjector<P> {
        let direction = |seed| Direction { rates, rng: Rng::with_seed(seed), held: None, ready: VecDeque::new() };
        FaultInjector {
            inner,
            receiving: direction(seed),
            // Any other seed would do.
            sending: direction(!seed),
            incoming: Batch::new(),
            outgoing: Vec::new(),
            injected: DropCounters::default(),
            counters: PortCounters::default(),
        }
    }

    /// The port inside.
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

    fn receive(&mut self, id: PortId, batch: &mut Batch) -> Result<usize, PortError> {
        // Takes no more from the port inside before what it gave has been passed on: memory stays bounded.
        if self.receiving.ready.is_empty() {
            self.incoming.clear();
            if self.inner.receive(id, &mut self.incoming)? == 0 {
                self.receiving.release();
            }
            for packet in self.incoming.packets() {
                if self.receiving.pass(packet) {
                    self.injected.add(PortReason::FaultInjected, packet.len());
                }
            }
        }
        let mut count = 0;
        while batch.room() > 0 {
            let Some(mut packet) = self.receiving.ready.pop_front() else { break };
            if batch.push_swap(&mut packet).is_ok() {
                count += 1;
            }
        }
        Ok(count)
    }

    fn send(&mut self, packets: &mut Outgoing<'_>) -> usize {
        for packet in packets.iter() {
            if self.sending.pass(packet) {
                self.injected.add(PortReason::FaultInjected, packet.len());
            }
        }
        // A packet held back waits for the next call: until then, nothing may follow it.
        self.outgoing.clear();
        self.outgoing.extend(self.sending.ready.drain(..));
        self.inner.send(&mut Outgoing::of(&mut self.outgoing))
    }

    fn readiness(&self) -> Readiness<'_> {
        if self.receiving.ready.is_empty() && self.receiving.held.is_none() {
            self.inner.readiness()
        } else {
            Readiness::Now
        }
    }

    /// Those of the port inside, and what was dropped on purpose.
    fn counters(&mut self) -> &PortCounters {
        self.counters.clone_from(self.inner.counters());
        self.counters.drops += &self.injected;
        &self.counters
    }

    fn trouble(&mut self) -> Option<Trouble> {
        self.inner.trouble()
    }
}
