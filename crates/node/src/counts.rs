//! [`WorkerCounts`]: statistics of a worker over all programs that it ran. They are kept by reason
//! name, because a reason's number is only valid with the name table of its program.

use io::{Latency, OffloadCounters, RunStats};
use packet::{Counter, EngineCounters, EngineReason, PortReason, ReasonTable};
use std::collections::BTreeMap;
use std::iter::Sum;
use std::ops::AddAssign;
use std::time::Duration;

/// Statistics of one worker, or the sum over all workers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkerCounts {
    /// Packets given to the engine.
    pub received: Counter,
    /// Packets that left the engine for an existing port.
    pub forwarded: Counter,
    /// Additional packets that the program made: copies of received packets, and generated packets.
    pub copies: u64,
    /// Packets that left the engine for the controller, by reason.
    pub to_cpu: BTreeMap<String, Counter>,
    /// Packets dropped by the engine, or because the port does not exist or the controller's queue
    /// was full, by reason. Packets lost at a port are counted in `ports`.
    pub drops: BTreeMap<String, Counter>,
    /// Port counters, by port number.
    pub ports: BTreeMap<u32, PortCounts>,
    /// Super-frames and open checksums.
    pub offloads: OffloadCounters,
    /// Batches processed by the engine.
    pub batches: u64,
    /// Time spent in the engine.
    pub engine_time: Duration,
    /// Time with packets to handle: receiving, the engine, sending.
    pub busy_time: Duration,
    /// Time since the worker started; in a sum, the longest of all workers. `busy_time` divided by
    /// it is the worker's busy share.
    pub run_time: Duration,
    /// Distribution of packet latency, from receive to hand-over to a port.
    pub latency: Latency,
}

/// Counters of one port, or of a worker's queue of that port.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PortCounts {
    /// Name of the port.
    pub name: String,
    /// Received packets.
    pub received: Counter,
    /// Sent packets.
    pub sent: Counter,
    /// Packets lost at the port, by reason.
    pub drops: BTreeMap<String, Counter>,
    /// Why the port is down; `None` while it works.
    pub fault: Option<String>,
}

impl AddAssign<&WorkerCounts> for WorkerCounts {
    fn add_assign(&mut self, other: &WorkerCounts) {
        self.received += other.received;
        self.forwarded += other.forwarded;
        self.copies += other.copies;
        add_counters(&mut self.to_cpu, &other.to_cpu);
        add_counters(&mut self.drops, &other.drops);
        for (number, port) in &other.ports {
            let sum = self.ports.entry(*number).or_default();
            sum.name.clone_from(&port.name);
            sum.received += port.received;
            sum.sent += port.sent;
            add_counters(&mut sum.drops, &port.drops);
            sum.fault = sum.fault.take().or_else(|| port.fault.clone());
        }
        self.offloads += &other.offloads;
        self.batches += other.batches;
        self.engine_time += other.engine_time;
        self.busy_time += other.busy_time;
        self.latency.merge(&other.latency);
        // Workers run in parallel, so their run times overlap: the longest one counts.
        self.run_time = self.run_time.max(other.run_time);
    }
}

impl<'a> Sum<&'a WorkerCounts> for WorkerCounts {
    fn sum<I: Iterator<Item = &'a WorkerCounts>>(all: I) -> WorkerCounts {
        all.fold(WorkerCounts::default(), |mut sum, one| {
            sum += one;
            sum
        })
    }
}

fn add_counters(sums: &mut BTreeMap<String, Counter>, others: &BTreeMap<String, Counter>) {
    for (name, counter) in others {
        *sums.entry(name.clone()).or_default() += *counter;
    }
}

impl WorkerCounts {
    /// Statistics of packets that bypassed the workers, with the reason names of the running
    /// program.
    pub(crate) fn of_bypass(counters: &EngineCounters, reasons: &ReasonTable) -> WorkerCounts {
        let report = RunStats { engine: counters.clone(), ..RunStats::default() };
        CounterTracker::default().counts(&report, reasons)
    }
}

/// Converts a worker's report, whose counters never restart, into counts by name over all programs.
#[derive(Debug, Default)]
pub(crate) struct CounterTracker {
    /// Counts of earlier programs by reason name: to the CPU, and drops.
    past_programs: [BTreeMap<String, Counter>; 2],
    /// Engine counters of the report when the running program started.
    baseline: EngineCounters,
}

impl CounterTracker {
    /// Returns the counts of the report, with the reason names of the running program.
    pub fn counts(&self, report: &RunStats, reasons: &ReasonTable) -> WorkerCounts {
        let [to_cpu, drops] = self.counters_by_name(&report.engine, reasons);
        let mut counts = WorkerCounts {
            received: report.engine.received,
            forwarded: report.engine.forwarded_total(),
            copies: report.engine.generated,
            to_cpu,
            drops,
            offloads: report.offloads,
            batches: report.engine.batches,
            engine_time: report.engine_time,
            busy_time: report.busy_time,
            run_time: report.run_time,
            latency: report.latency.clone(),
            ..WorkerCounts::default()
        };
        // Packets for an unknown port, and super-frames that cannot be cut, are counted as drops.
        let mut lost = report.tx_dropped.get(EngineReason::UnknownPort);
        lost += report.tx_dropped.get(PortReason::TxSegmentation);
        counts.forwarded = counts.forwarded.since(lost);
        for (reason, counter) in report.tx_dropped.iter() {
            *counts.drops.entry(reasons.drop_name(reason).into_owned()).or_default() += counter;
        }
        for (id, (name, port)) in &report.ports {
            let drops = port.drops.iter().map(|(reason, counter)| (reasons.drop_name(reason).into_owned(), counter));
            let fault = report.port_faults.get(id).cloned();
            let (received, sent) = (port.received, port.sent);
            counts.ports.insert(id.0, PortCounts { name: name.clone(), received, sent, drops: drops.collect(), fault });
        }
        counts
    }

    /// Records that another program starts; `reasons` belong to the program that ends.
    pub fn on_program_change(&mut self, report: &RunStats, reasons: &ReasonTable) {
        self.past_programs = self.counters_by_name(&report.engine, reasons);
        self.baseline = report.engine.clone();
    }

    fn counters_by_name(&self, now: &EngineCounters, reasons: &ReasonTable) -> [BTreeMap<String, Counter>; 2] {
        let [mut to_cpu, mut drops] = self.past_programs.clone();
        let more = |sums: &mut BTreeMap<String, Counter>, name: String, counter: Counter, mark: Counter| {
            let new = Counter { packets: counter.packets - mark.packets, bytes: counter.bytes - mark.bytes };
            if new != Counter::default() {
                *sums.entry(name).or_default() += new;
            }
        };
        for (reason, counter) in &now.to_cpu {
            let mark = self.baseline.to_cpu.get(reason).copied().unwrap_or_default();
            more(&mut to_cpu, reasons.cpu_name(*reason).into_owned(), *counter, mark);
        }
        for (reason, counter) in now.drops.iter() {
            more(&mut drops, reasons.drop_name(reason).into_owned(), counter, self.baseline.drops.get(reason));
        }
        [to_cpu, drops]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::{DropReason, ReasonId};

    fn reasons(names: [&str; 2]) -> ReasonTable {
        let named = |(number, name): (u32, &str)| (ReasonId(number), name.to_owned());
        ReasonTable::new((0..).zip(names).map(named)).expect("good names")
    }

    #[test]
    fn a_reason_keeps_its_name_when_another_program_uses_its_number() {
        let mut report = RunStats::default();
        let (first, second) = (reasons(["one", "two"]), reasons(["three", "one"]));
        let mut ledger = CounterTracker::default();
        report.engine.drops.count_drop(DropReason::Program(ReasonId(0)), 100);
        report.engine.drops.count_drop(DropReason::Program(ReasonId(1)), 100);
        ledger.on_program_change(&report, &first);
        report.engine.drops.count_drop(DropReason::Program(ReasonId(1)), 50);
        report.engine.drops.count_drop(DropReason::Program(ReasonId(0)), 50);
        let drops = ledger.counts(&report, &second).drops;
        let packets: Vec<_> = drops.iter().map(|(name, counter)| (name.as_str(), counter.packets)).collect();
        assert_eq!(packets, [("one", 2), ("three", 1), ("two", 1)]);
    }
}
