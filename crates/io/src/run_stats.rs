//! [`RunStats`]: statistics of a run.

use crate::{Latency, OffloadCounters};
use packet::{Counter, DropCounters, EngineCounters, PortCounters, PortId};
use std::collections::BTreeMap;
use std::time::Duration;

/// Statistics of a run up to now.
#[derive(Debug, Clone, Default)]
pub struct RunStats {
    /// Counters of the engine.
    pub engine: EngineCounters,
    /// Name and counters of each port. Updated before each tick and at the end.
    pub ports: BTreeMap<PortId, (String, PortCounters)>,
    /// Ports that cannot pass packets at present, with the reason. Updated with `ports`.
    pub port_faults: BTreeMap<PortId, String>,
    /// Packets of the engine for a port that does not exist
    /// ([`packet::EngineReason::UnknownPort`]), or that the CPU did not accept
    /// ([`packet::PortReason::PacketInQueueFull`]), or super-frames that cannot be cut
    /// ([`packet::PortReason::TxSegmentation`]). Other drops of a port are counted at the port.
    pub tx_dropped: DropCounters,
    /// Super-frames and open checksums.
    pub offloads: OffloadCounters,
    /// Time spent in the engine.
    pub engine_time: Duration,
    /// Time of polls that received packets: receiving, the engine, sending.
    pub busy_time: Duration,
    /// Time from receiving to sending, per packet. All packets of a batch have the same time.
    pub latency: Latency,
    /// Time since the start of the run.
    pub run_time: Duration,
}

impl RunStats {
    /// Returns all drops: of the engine, of the ports, and `unsent`.
    pub fn drops(&self) -> DropCounters {
        let mut all = self.engine.drops.clone();
        all += &self.tx_dropped;
        for (_, counters) in self.ports.values() {
            all += &counters.drops;
        }
        all
    }

    /// Returns all packets that arrived at the ports: received by the engine or dropped before it.
    pub fn arrived(&self) -> Counter {
        let mut all = self.engine.received;
        for (_, counters) in self.ports.values() {
            all += counters.lost_before_engine();
        }
        all
    }

    /// Returns the number of packets without a recorded outcome: arrived packets, generated ones
    /// and those that cutting super-frames added, minus sent, CPU and dropped packets. Always 0
    /// between two batches; any other value is a bug of a port or an engine.
    pub fn unaccounted(&self) -> i64 {
        // Packets to the CPU are counted by the engine, whether or not the CPU accepts them.
        let not_taken = self.tx_dropped.get(packet::PortReason::PacketInQueueFull).packets;
        let dropped = self.drops().total().packets - not_taken;
        let accounted = self.sent().packets + self.engine.to_cpu_total().packets + dropped;
        (self.arrived().packets + self.engine.generated) as i64 + self.offloads.added_packets() - accounted as i64
    }

    /// Returns the packets that all ports sent.
    pub fn sent(&self) -> Counter {
        let mut sent = Counter::default();
        for (_, counters) in self.ports.values() {
            sent += counters.sent;
        }
        sent
    }

    /// Adds the statistics of another worker with queues of the same ports. Engine times add up;
    /// the run time is the maximum. Of a port that several workers report as faulty, the first
    /// fault stays.
    pub fn merge(&mut self, other: &RunStats) {
        self.engine += &other.engine;
        for (id, (name, counters)) in &other.ports {
            let (_, sum) = self.ports.entry(*id).or_insert_with(|| (name.clone(), PortCounters::default()));
            *sum += counters;
        }
        for (id, fault) in &other.port_faults {
            self.port_faults.entry(*id).or_insert_with(|| fault.clone());
        }
        self.tx_dropped += &other.tx_dropped;
        self.offloads += &other.offloads;
        self.engine_time += other.engine_time;
        self.busy_time += other.busy_time;
        self.latency.merge(&other.latency);
        self.run_time = self.run_time.max(other.run_time);
    }
}
