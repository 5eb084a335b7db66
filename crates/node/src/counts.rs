//! [`Counts`]: what a worker did, by name, over all programs that it ran. A program's reasons are numbers that mean something only beside its own
//! table of names; what outlives a program has the names.

use io::{Latency, RunReport};
use packet::{Counter, EngineCounters, EngineReason, ReasonTable};
use std::collections::BTreeMap;
use std::iter::Sum;
use std::ops::AddAssign;
use std::time::Duration;

/// What one worker did, or all of them together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counts {
    /// Given to the engine.
    pub received: Counter,
    /// Left the engine for a port that there is.
    pub forwarded: Counter,
    /// Further packets that the program made of those that it was given, or by itself.
    pub copies: u64,
    /// Left the engine for the controller, by reason.
    pub to_cpu: BTreeMap<String, Counter>,
    /// Dropped by the engine or because there was no port or taker, by reason. What ports lost is with the ports.
    pub drops: BTreeMap<String, Counter>,
    /// By number: name, and what went through.
    pub ports: BTreeMap<u32, PortCounts>,
    /// Batches that the engine was given.
    pub batches: u64,
    /// Time in the engine.
    pub engine_time: Duration,
    /// Time in which there were packets: receiving, the engine, sending.
    pub busy_time: Duration,
    /// Since the start; of several workers the longest. With `busy_time` it gives a worker's busy share.
    pub run_time: Duration,
    /// How long packets were with the worker, from received to handed to a port.
    pub residence: Latency,
}

/// One port, or a worker's queue of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PortCounts {
    /// The name.
    pub name: String,
    /// Received.
    pub received: Counter,
    /// Sent.
    pub sent: Counter,
    /// Lost at the port, by reason.
    pub drops: BTreeMap<String, Counter>,
    /// Why nothing can go through at present.
    pub trouble: Option<String>,
}

impl AddAssign<&Counts> for Counts {
    fn add_assign(&mut self, other: &Counts) {
        self.received += other.received;
        self.forwarded += other.forwarded;
        self.copies += other.copies;
        add(&mut self.to_cpu, &other.to_cpu);
        add(&mut self.drops, &other.drops);
        for (number, port) in &other.ports {
            let sum = self.ports.entry(*number).or_default();
            sum.name.clone_from(&port.name);
            sum.received += port.received;
            sum.sent += port.sent;
            add(&mut sum.drops, &port.drops);
            sum.trouble = sum.trouble.take().or_else(|| port.trouble.clone());
        }
        self.batches += other.batches;
        self.engine_time += other.engine_time;
        self.busy_time += other.busy_time;
        self.residence.merge(&other.residence);
        self.run_time = self.run_time.max(other.run_time);
    }
}

impl<'a> Sum<&'a Counts> for Counts {
    fn sum<I: Iterator<Item = &'a Counts>>(all: I) -> Counts {
        all.fold(Counts::default(), |mut sum, one| {
            sum += one;
            sum
        })
    }
}

fn add(sums: &mut BTreeMap<String, Counter>, others: &BTreeMap<String, Counter>) {
    for (name, counter) in others {
        *sums.entry(name.clone()).or_default() += *counter;
    }
}

impl Counts {
    /// Of packets that no worker was given, with the names of the program that runs.
    pub(crate) fn beside_workers(counters: &EngineCounters, reasons: &ReasonTable) -> Counts {
        let report = RunReport { engine: counters.clone(), ..RunReport::default() };
        Ledger::default().counts(&report, reasons)
    }
}

/// Follows a worker's report, whose numbers go on through all programs.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// By programs before the one that runs: to the CPU, and drops.
    before: [BTreeMap<String, Counter>; 2],
    /// The report's engine counters when that one began.
    mark: EngineCounters,
}

impl Ledger {
    /// What the report says, with the names of the program that runs.
    pub fn counts(&self, report: &RunReport, reasons: &ReasonTable) -> Counts {
        let [to_cpu, drops] = self.named(&report.engine, reasons);
        let mut counts = Counts {
            received: report.engine.received,
            forwarded: report.engine.forwarded_total(),
            copies: report.engine.copies,
            to_cpu,
            drops,
            batches: report.engine.batches,
            engine_time: report.engine_time,
            busy_time: report.busy_time,
            run_time: report.run_time,
            residence: report.residence.clone(),
            ..Counts::default()
        };
        // What was to leave by a port that is none is with the drops.
        let portless = report.unsent.get(EngineReason::UnknownPort);
        counts.forwarded = counts.forwarded.since(portless);
        for (reason, counter) in report.unsent.iter() {
            *counts.drops.entry(reasons.drop_name(reason).into_owned()).or_default() += counter;
        }
        for (id, (name, port)) in &report.ports {
            let drops = port.drops.iter().map(|(reason, counter)| (reasons.drop_name(reason).into_owned(), counter));
            let trouble = report.troubles.get(id).cloned();
            let (received, sent) = (port.received, port.sent);
            counts
                .ports
                .insert(id.0, PortCounts { name: name.clone(), received, sent, drops: drops.collect(), trouble });
        }
        counts
    }

    /// Another program begins; `reasons` are those of the one that ends.
    pub fn turn(&mut self, report: &RunReport, reasons: &ReasonTable) {
        self.before = self.named(&report.engine, reasons);
        self.mark = report.engine.clone();
    }

    fn named(&self, now: &EngineCounters, reasons: &ReasonTable) -> [BTreeMap<String, Counter>; 2] {
        let [mut to_cpu, mut drops] = self.before.clone();
        let more = |sums: &mut BTreeMap<String, Counter>, name: String, counter: Counter, mark: Counter| {
            let new = Counter { packets: counter.packets - mark.packets, bytes: counter.bytes - mark.bytes };
            if new != Counter::default() {
                *sums.entry(name).or_default() += new;
            }
        };
        for (reason, counter) in &now.to_cpu {
            let mark = self.mark.to_cpu.get(reason).copied().unwrap_or_default();
            more(&mut to_cpu, reasons.cpu_name(*reason).into_owned(), *counter, mark);
        }
        for (reason, counter) in now.drops.iter() {
            more(&mut drops, reasons.drop_name(reason).into_owned(), counter, self.mark.drops.get(reason));
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
        let mut report = RunReport::default();
        let (first, second) = (reasons(["one", "two"]), reasons(["three", "one"]));
        let mut ledger = Ledger::default();
        report.engine.drops.add(DropReason::Program(ReasonId(0)), 100);
        report.engine.drops.add(DropReason::Program(ReasonId(1)), 100);
        ledger.turn(&report, &first);
        report.engine.drops.add(DropReason::Program(ReasonId(1)), 50);
        report.engine.drops.add(DropReason::Program(ReasonId(0)), 50);
        let drops = ledger.counts(&report, &second).drops;
        let packets: Vec<_> = drops.iter().map(|(name, counter)| (name.as_str(), counter.packets)).collect();
        assert_eq!(packets, [("one", 2), ("three", 1), ("two", 1)]);
    }
}
