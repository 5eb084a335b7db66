//! Counters of packets and bytes, per port, per engine, and per drop reason.

use crate::{Batch, BatchOutput, CpuReason, DropReason, EngineReason, PortId, PortReason, ReasonId, Verdict};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::iter::Sum;
use std::ops::AddAssign;

/// Packets and bytes, modulo 2^64. Bytes are those of the packet, without preamble and frame check
/// sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash, Serialize, Deserialize)]
pub struct Counter {
    /// Number of packets.
    pub packets: u64,
    /// Sum of the packet lengths, in bytes.
    pub bytes: u64,
}

impl Counter {
    /// Counts one packet of `len` bytes.
    pub fn count_packet(&mut self, len: usize) {
        self.packets += 1;
        self.bytes += len as u64;
    }

    /// Returns the sum of both counters, modulo 2^64.
    pub fn plus(self, other: Counter) -> Counter {
        let (packets, bytes) = (self.packets.wrapping_add(other.packets), self.bytes.wrapping_add(other.bytes));
        Counter { packets, bytes }
    }

    /// Returns the difference to `earlier`, a previous value of this counter.
    pub fn since(self, earlier: Counter) -> Counter {
        let (packets, bytes) = (self.packets.saturating_sub(earlier.packets), self.bytes.saturating_sub(earlier.bytes));
        Counter { packets, bytes }
    }

    /// Removes up to `packets` packets and returns them as a counter. Their bytes are the
    /// proportional share, because individual lengths are not recorded.
    pub fn take_packets(&mut self, packets: u64) -> Counter {
        let packets = packets.min(self.packets);
        let share = u128::from(self.bytes) * u128::from(packets) / u128::from(self.packets.max(1));
        let taken = Counter { packets, bytes: share as u64 };
        *self = self.since(taken);
        taken
    }

    /// Reports whether no packet was counted.
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
    pub fn count_drop(&mut self, reason: impl Into<DropReason>, len: usize) {
        self.counter_mut(reason.into()).count_packet(len);
    }

    /// Counts dropped packets without bytes, because only their number is known.
    pub fn count_drops(&mut self, reason: impl Into<DropReason>, packets: u64) {
        if packets > 0 {
            self.counter_mut(reason.into()).packets += packets;
        }
    }

    /// Adds a counter that was kept elsewhere.
    pub fn add_counter(&mut self, reason: impl Into<DropReason>, counter: Counter) {
        if counter != Counter::default() {
            *self.counter_mut(reason.into()) += counter;
        }
    }

    /// Returns the difference to `earlier`, a previous value of these counters.
    pub fn since(&self, earlier: &DropCounters) -> DropCounters {
        let mut since = DropCounters::default();
        self.iter().for_each(|(reason, counter)| since.add_counter(reason, counter.since(earlier.get(reason))));
        since
    }

    /// Returns the counter of `reason`.
    pub fn get(&self, reason: impl Into<DropReason>) -> Counter {
        match reason.into() {
            DropReason::Engine(reason) => self.engine[reason as usize],
            DropReason::Port(reason) => self.port[reason as usize],
            DropReason::Program(id) => self.program.get(&id).copied().unwrap_or_default(),
        }
    }

    /// Iterates over the nonzero counters: engine, port and program reasons, each in order.
    pub fn iter(&self) -> impl Iterator<Item = (DropReason, Counter)> {
        let engine = EngineReason::ALL.iter().map(|reason| DropReason::Engine(*reason)).zip(self.engine);
        let port = PortReason::ALL.iter().map(|reason| DropReason::Port(*reason)).zip(self.port);
        let program = self.program.iter().map(|(id, counter)| (DropReason::Program(*id), *counter));
        engine.chain(port).chain(program).filter(|(_, counter)| !counter.is_zero())
    }

    /// Returns the sum over all reasons.
    pub fn total(&self) -> Counter {
        let mut total = Counter::default();
        for (_, counter) in self.iter() {
            total += counter;
        }
        total
    }

    fn counter_mut(&mut self, reason: DropReason) -> &mut Counter {
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
            *self.counter_mut(reason) += counter;
        }
    }
}

/// Packets received, sent and dropped by a port.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PortCounters {
    /// Packets received and passed to the engine.
    pub received: Counter,
    /// Packets sent.
    pub sent: Counter,
    /// Received packets that arrived in several segments and were copied into one.
    pub linearised: Counter,
    /// Sent packets that were copied because their buffer could not be passed to the device.
    /// Counted only by ports that can send without a copy.
    pub copied: Counter,
    /// Packets lost at the port, in either direction.
    pub drops: DropCounters,
}

impl PortCounters {
    /// Returns the packets lost on receiving, before the engine.
    pub fn lost_before_engine(&self) -> Counter {
        let mut lost = Counter::default();
        for (_, counter) in self.drops.iter().filter(|(reason, _)| reason.is_before_engine()) {
            lost += counter;
        }
        lost
    }

    /// Moves `packets` packets from `sent` to the drops, for packets that were counted as sent and
    /// later turned out to be lost. Their bytes are those of an average packet.
    pub fn move_sent_to_drops(&mut self, reason: impl Into<DropReason>, packets: u64) {
        let part = self.sent.take_packets(packets);
        self.drops.add_counter(reason, part);
    }

    /// Returns the difference to `earlier`, a previous value of the counters of the same port.
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

/// Packets that an engine received and their outcome. Every packet that the engine received or
/// generated is in exactly one of `forwarded`, `to_cpu` and `drops`, so the packet counts of
/// `received` and `generated` add up to those of the three.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EngineCounters {
    /// Batches processed.
    pub batches: u64,
    /// Packets passed to the engine, with their lengths on arrival.
    pub received: Counter,
    /// Packets that the engine generated: further copies of a received packet (multicast, clones),
    /// and packets of its own.
    pub generated: u64,
    /// Forwarded packets per egress port.
    pub forwarded: BTreeMap<PortId, Counter>,
    /// Packets sent to the CPU, per reason.
    pub to_cpu: BTreeMap<CpuReason, Counter>,
    /// Dropped packets.
    pub drops: DropCounters,
}

impl EngineCounters {
    /// Counts the packets of a batch that is about to be passed to an engine.
    pub fn count_received(&mut self, batch: &Batch) {
        for packet in batch.packets() {
            self.received.count_packet(packet.len());
        }
    }

    /// Counts the verdicts of an engine on `batch`, after [`EngineCounters::count_received`] has
    /// counted its packets. An input without a verdict counts as [`EngineReason::EngineBug`].
    /// Beyond one verdict for each input, verdicts are those of generated packets.
    pub fn count_batch(&mut self, batch: &Batch, out: &BatchOutput) {
        self.batches += 1;
        // Packets of a batch mostly leave on few ports, so the map is searched once for each run of
        // packets on the same port.
        let mut port_run: Option<(PortId, Counter)> = None;
        for (emission, packet) in out.iter(batch) {
            match emission.verdict {
                Verdict::Forward { port } => match &mut port_run {
                    Some((run_port, counter)) if *run_port == port => counter.count_packet(packet.len()),
                    _ => {
                        let mut counter = Counter::default();
                        counter.count_packet(packet.len());
                        if let Some((earlier_port, counter)) = port_run.replace((port, counter)) {
                            *self.forwarded.entry(earlier_port).or_default() += counter;
                        }
                    }
                },
                Verdict::ToCpu { reason } => self.to_cpu.entry(reason).or_default().count_packet(packet.len()),
                Verdict::Drop(reason) => self.drops.count_drop(reason, packet.len()),
            }
        }
        if let Some((port, counter)) = port_run {
            *self.forwarded.entry(port).or_default() += counter;
        }
        self.drops.count_drops(EngineReason::ReplicationLimit, out.overflow_count());
        // After an overflow, an input without a verdict is among the refused ones.
        let without_verdict =
            if out.overflow_count() == 0 { out.inputs_without_verdict(batch).count() as u64 } else { 0 };
        self.drops.count_drops(EngineReason::EngineBug, without_verdict);
        let verdict_count = out.verdicts().len() as u64 + out.overflow_count() + without_verdict;
        self.generated += verdict_count.saturating_sub(batch.len() as u64);
    }

    /// Returns the packets sent to the CPU, summed over all reasons.
    pub fn to_cpu_total(&self) -> Counter {
        let mut total = Counter::default();
        self.to_cpu.values().for_each(|counter| total += *counter);
        total
    }

    /// Returns the forwarded packets, summed over all ports.
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
        self.generated += other.generated;
        for (port, counter) in &other.forwarded {
            *self.forwarded.entry(*port).or_default() += *counter;
        }
        for (reason, counter) in &other.to_cpu {
            *self.to_cpu.entry(*reason).or_default() += *counter;
        }
        self.drops += &other.drops;
    }
}
