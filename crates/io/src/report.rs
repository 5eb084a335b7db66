//! [`RunReport`]: what happened in a run.

use crate::Latency;
use packet::{Counter, DropCounters, EngineCounters, PortCounters, PortId};
use std::collections::BTreeMap;
use std::time::Duration;

/// What happened in a run, up to now.
#[derive(Debug, Clone, Default)]
pub struct RunReport {
    /// What the engine did.
    pub engine: EngineCounters,
    /// What went through each port; brought up to date before each tick and at the end.
    pub ports: BTreeMap<PortId, (String, PortCounters)>,
    /// Ports through which nothing can go at present, and why; as up to date as `ports`.
    pub troubles: BTreeMap<PortId, String>,
    /// Packets of the engine for which there was no port ([`packet::EngineReason::UnknownPort`]) or no taker on the CPU
    /// ([`packet::PortReason::CpuQueueFull`]). What a port itself lost is with the port.
    pub unsent: DropCounters,
    /// Time spent in the engine.
    pub engine_time: Duration,
    /// Time in rounds that found packets: receiving, the engine, sending.
    pub busy_time: Duration,
    /// How long packets were with the worker, from received to handed to a port; packets of one batch alike.
    pub residence: Latency,
    /// Time since the run began.
    pub run_time: Duration,
}

impl RunReport {
    /// All drops together: of the engine, of the ports, and what was unsent.
    pub fn drops(&self) -> DropCounters {
        let mut all = self.engine.drops.clone();
        all += &self.unsent;
        for (_, counters) in self.ports.values() {
            all += &counters.drops;
        }
        all
    }

    /// Everything that came to the ports: what the engine was given, and what was lost before that.
    pub fn arrived(&self) -> Counter {
        let mut all = self.engine.received;
        for (_, counters) in self.ports.values() {
            all += counters.lost_before_engine();
        }
        all
    }

    /// Packets of which nothing says what became of them: what arrived and what the engine made, less what was sent, went to the CPU, or was dropped. Always 0
    /// between two batches; anything else is a bug of a port or an engine.
    pub fn unaccounted(&self) -> i64 {
        // What goes to the CPU is counted there, whether or not it is taken.
        let not_taken = self.unsent.get(packet::PortReason::CpuQueueFull).packets;
        let dropped = self.drops().total().packets - not_taken;
        let known = self.sent().packets + self.engine.to_cpu_total().packets + dropped;
        (self.arrived().packets + self.engine.copies) as i64 - known as i64
    }

    /// What all ports sent.
    pub fn sent(&self) -> Counter {
        let mut sent = Counter::default();
        for (_, counters) in self.ports.values() {
            sent += counters.sent;
        }
        sent
    }

    /// Adds what another worker did with its queues of the same ports. Times of the engine add up; that of the run is the longest.
    pub fn merge(&mut self, other: &RunReport) {
        self.engine += &other.engine;
        for (id, (name, counters)) in &other.ports {
            let (_, sum) = self.ports.entry(*id).or_insert_with(|| (name.clone(), PortCounters::default()));
            *sum += counters;
        }
        for (id, trouble) in &other.troubles {
            self.troubles.entry(*id).or_insert_with(|| trouble.clone());
        }
        self.unsent += &other.unsent;
        self.engine_time += other.engine_time;
        self.busy_time += other.busy_time;
        self.residence.merge(&other.residence);
        self.run_time = self.run_time.max(other.run_time);
    }
}
