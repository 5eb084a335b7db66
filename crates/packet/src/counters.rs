//! Counters of packets and bytes, per port, per engine, and per drop reason.

use crate::{Batch, CpuReason, DropReason, EngineReason, Output, PortId, PortReason, ReasonId, Verdict};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::iter::Sum;
use std::ops::AddAssign;

/// Packets and bytes, modulo 2^64. Bytes are those of the packet, without preamble and frame check sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash, Serialize, Deserialize)]
pub struct Counter {
    /// Number of packets.
    pub packets: u64,
    /// Sum of their lengths.
    pub bytes: u64,
}

impl Counter {
    /// Counts one packet of `len` bytes.
    pub fn add(&mut self, len: usize) {
        self.packets += 1;
        self.bytes += len as u64;
    }

    /// Both together.
    pub fn plus(self, other: Counter) -> Counter {
        let (packets, bytes) = (self.packets.wrapping_add(other.packets), self.bytes.wrapping_add(other.bytes));
        Counter { packets, bytes }
    }

    /// What was counted since `earlier`, which is of the same counter.
    pub fn since(self, earlier: Counter) -> Counter {
        let (packets, bytes) = (self.packets.saturating_sub(earlier.packets), self.bytes.saturating_sub(earlier.bytes));
        Counter { packets, bytes }
    }

    /// Takes so many packets out, at most all, and returns what that was. Their bytes are their share of all: how long each one was is not known.
    pub fn take_part(&mut self, packets: u64) -> Counter {
        let packets = packets.min(self.packets);
        let share = u128::from(self.bytes) * u128::from(packets) / u128::from(self.packets.max(1));
        let part = Counter { packets, bytes: share as u64 };
        *self = self.since(part);
        part
    }

    /// Whether nothing was counted.
    pub fn is_zero(&self) -> bool {
        self.packets == 0
    }
}

impl AddAssign for Counter {
    fn add_assign(&mut self, other: Counter) {
        *self = self.plus(other);
    }
}

impl Sum for Counter {
    fn sum<I: Iterator<Item = Counter>>(counters: I) -> Counter {
        counters.fold(Counter::default(), Counter::plus)
    }
}

/// Dropped packets by reason.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DropCounters {
    engine: [Counter; EngineReason::ALL.len()],
    port: [Counter; PortReason::ALL.len()],
    program: BTreeMap<ReasonId, Counter>,
}

impl DropCounters {
    /// Counts a dropped packet of `len` bytes.
    pub fn add(&mut self, reason: impl Into<DropReason>, len: usize) {
        self.slot(reason.into()).add(len);
    }

    /// Counts packets of which only the number is known.
    pub fn add_packets(&mut self, reason: impl Into<DropReason>, packets: u64) {
        if packets > 0 {
            self.slot(reason.into()).packets += packets;
        }
    }

    /// Adds what was counted elsewhere.
    pub fn add_counter(&mut self, reason: impl Into<DropReason>, counter: Counter) {
        if counter != Counter::default() {
            *self.slot(reason.into()) += counter;
        }
    }

    /// What was counted since `earlier`, which is of the same counters.
    pub fn since(&self, earlier: &DropCounters) -> DropCounters {
        let mut since = DropCounters::default();
        self.iter().for_each(|(reason, counter)| since.add_counter(reason, counter.since(earlier.get(reason))));
        since
    }

    /// What was counted for `reason`.
    pub fn get(&self, reason: impl Into<DropReason>) -> Counter {
        match reason.into() {
            DropReason::Engine(reason) => self.engine[reason as usize],
            DropReason::Port(reason) => self.port[reason as usize],
            DropReason::Program(id) => self.program.get(&id).copied().unwrap_or_default(),
        }
    }

    /// All reasons for which something was counted: engine, port, program, each in order.
    pub fn iter(&self) -> impl Iterator<Item = (DropReason, Counter)> {
        let engine = EngineReason::ALL.iter().map(|reason| DropReason::Engine(*reason)).zip(self.engine);
        let port = PortReason::ALL.iter().map(|reason| DropReason::Port(*reason)).zip(self.port);
        let program = self.program.iter().map(|(id, counter)| (DropReason::Program(*id), *counter));
        engine.chain(port).chain(program).filter(|(_, counter)| !counter.is_zero())
    }

    /// The sum over all reasons.
    pub fn total(&self) -> Counter {
        let mut total = Counter::default();
        for (_, counter) in self.iter() {
            total += counter;
        }
        total
    }

    fn slot(&mut self, reason: DropReason) -> &mut Counter {
        match reason {
            DropReason::Engine(reason) => &mut self.engine[reason as usize],
            DropReason::Port(reason) => &mut self.port[reason as usize],
            DropReason::Program(id) => self.program.entry(id).or_default(),
        }
    }
}

impl AddAssign<&DropCounters> for DropCounters {
    fn add_assign(&mut self, other: &DropCounters) {
        for (reason, counter) in other.iter() {
            *self.slot(reason) += counter;
        }
    }
}

/// What went through a port.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PortCounters {
    /// Received and given to the engine.
    pub received: Counter,
    /// Sent.
    pub sent: Counter,
    /// Of those received: came in several segments, which were put together by copying.
    pub linearised: Counter,
    /// Of those sent: copied, as their buffer could not be given to the device. Only ports that need not copy count this.
    pub copied: Counter,
    /// Lost at the port, either way.
    pub drops: DropCounters,
}

impl PortCounters {
    /// What was lost on its way in: no engine was given it.
    pub fn lost_before_engine(&self) -> Counter {
        let mut lost = Counter::default();
        for (_, counter) in self.drops.iter().filter(|(reason, _)| reason.is_before_engine()) {
            lost += counter;
        }
        lost
    }

    /// Packets that were counted as sent, and as it turns out were lost. Bytes are those of an average packet.
    pub fn unsend(&mut self, reason: impl Into<DropReason>, packets: u64) {
        let part = self.sent.take_part(packets);
        self.drops.add_counter(reason, part);
    }

    /// What was counted since `earlier`, which is of the same port.
    pub fn since(&self, earlier: &PortCounters) -> PortCounters {
        PortCounters {
            received: self.received.since(earlier.received),
            sent: self.sent.since(earlier.sent),
            linearised: self.linearised.since(earlier.linearised),
            copied: self.copied.since(earlier.copied),
            drops: self.drops.since(&earlier.drops),
        }
    }
}

impl AddAssign<&PortCounters> for PortCounters {
    fn add_assign(&mut self, other: &PortCounters) {
        self.received += other.received;
        self.sent += other.sent;
        self.linearised += other.linearised;
        self.copied += other.copied;
        self.drops += &other.drops;
    }
}

/// What an engine did: every packet that it was given or made is in exactly one of `forwarded`, `to_cpu` and `drops`. So the packets of `received` and `copies`
/// together are those of the three.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EngineCounters {
    /// Batches processed.
    pub batches: u64,
    /// Packets given to the engine, with the length with which they arrived.
    pub received: Counter,
    /// Packets that the engine made: further copies of one that it was given (multicast, clones), and those that it makes by itself.
    pub copies: u64,
    /// Per port, what is to leave there.
    pub forwarded: BTreeMap<PortId, Counter>,
    /// Per reason, what goes to the CPU.
    pub to_cpu: BTreeMap<CpuReason, Counter>,
    /// What was dropped.
    pub drops: DropCounters,
}

impl EngineCounters {
    /// Counts the packets of a batch that an engine is to be given next.
    pub fn receive(&mut self, batch: &Batch) {
        for packet in batch.packets() {
            self.received.add(packet.len());
        }
    }

    /// Counts what an engine said about `batch`, whose packets [`EngineCounters::receive`] has counted. An input that was not answered counts as
    /// [`EngineReason::EngineFault`].
    pub fn record(&mut self, batch: &Batch, out: &Output) {
        self.batches += 1;
        // Packets of a batch mostly leave on few ports: one search of the map for each stretch on the same one.
        let mut stretch: Option<(PortId, Counter)> = None;
        for (emission, packet) in out.iter(batch) {
            match emission.verdict {
                Verdict::Forward { port } => match &mut stretch {
                    Some((same, counter)) if *same == port => counter.add(packet.len()),
                    _ => {
                        let mut counter = Counter::default();
                        counter.add(packet.len());
                        if let Some((before, counter)) = stretch.replace((port, counter)) {
                            *self.forwarded.entry(before).or_default() += counter;
                        }
                    }
                },
                Verdict::ToCpu { reason } => self.to_cpu.entry(reason).or_default().add(packet.len()),
                Verdict::Drop(reason) => self.drops.add(reason, packet.len()),
            }
        }
        if let Some((port, counter)) = stretch {
            *self.forwarded.entry(port).or_default() += counter;
        }
        self.drops.add_packets(EngineReason::ReplicationLimit, out.overflow());
        // An input whose emissions were refused for number is among those.
        let unanswered = if out.overflow() == 0 { out.unanswered(batch).count() as u64 } else { 0 };
        self.drops.add_packets(EngineReason::EngineFault, unanswered);
        let said = out.emissions().len() as u64 + out.overflow() + unanswered;
        self.copies += said.saturating_sub(batch.len() as u64);
    }

    /// The sum over all reasons of what goes to the CPU.
    pub fn to_cpu_total(&self) -> Counter {
        let mut total = Counter::default();
        self.to_cpu.values().for_each(|counter| total += *counter);
        total
    }

    /// The sum over all ports of what is to leave.
    pub fn forwarded_total(&self) -> Counter {
        let mut total = Counter::default();
        for counter in self.forwarded.values() {
            total += *counter;
        }
        total
    }
}

impl AddAssign<&EngineCounters> for EngineCounters {
    fn add_assign(&mut self, other: &EngineCounters) {
        self.batches += other.batches;
        self.received += other.received;
        self.copies += other.copies;
        for (port, counter) in &other.forwarded {
            *self.forwarded.entry(*port).or_default() += *counter;
        }
        for (reason, counter) in &other.to_cpu {
            *self.to_cpu.entry(*reason).or_default() += *counter;
        }
        self.drops += &other.drops;
    }
}
