//! Hit reports from lower tiers to a switch in another process: [`ReportOutbox`] in the lower tier,
//! [`HitReports`] in the switch.
//!
//! A report contains for each hot table the hit rates of the most hit entries since the last
//! report. It is sent over the links in a few frames. A lost frame only degrades the selection. The
//! switch keeps the last report of each reporter for a limited time and with a limited number of
//! entries.

use offload::partition::bridge_wire::{HitReport, MAX_HITS};
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};

/// Maximum number of a table's entries in a report.
pub const MAX_REPORTED_ENTRIES: usize = 64 * MAX_HITS;
/// Maximum number of queued frames per port.
const MAX_FRAMES: usize = 512;
/// Maximum number of frames sent at a time.
const MAX_BURST_FRAMES: usize = 16;
/// Maximum number of reporters.
const MAX_INSTANCES: usize = 64;
/// Maximum number of tables per reporter.
const MAX_TABLES: usize = 64;
/// Maximum age of a report in ns. A report that misses several successors expires earlier, because
/// its reporter is gone.
const MAX_REPORT_AGE_NS: u64 = 10_000_000_000;

/// Number of missing reports after which a report expires.
const REPORTS_MISSED: u64 = 3;

/// Minimum assumed interval between reports in ns.
const MIN_REPORT_INTERVAL_NS: u64 = 100_000_000;

/// Returns a rate in thousandths of hits per second.
pub fn hit_rate_milli(hits: u64, nanoseconds: u64) -> u64 {
    u64::try_from(u128::from(hits) * 1_000_000_000_000 / u128::from(nanoseconds.max(1))).unwrap_or(u64::MAX)
}

/// Frames queued for switches.
pub struct ReportOutbox {
    instance: u64,
    waiting: Mutex<PendingReport>,
}

/// Sequence number of the last report, and its queued frames by port.
struct PendingReport {
    number: u32,
    ports: BTreeMap<u32, Frames>,
}

type Frames = VecDeque<Vec<u8>>;

impl ReportOutbox {
    /// Creates an outbox for these ports.
    pub fn new(ports: &[u32]) -> ReportOutbox {
        let ports = ports.iter().map(|port| (*port, Frames::new())).collect();
        ReportOutbox {
            instance: RandomState::new().hash_one(0),
            waiting: Mutex::new(PendingReport { number: 0, ports }),
        }
    }

    /// Queues a new report with the entries of each table; discards queued frames of the last one.
    pub fn queue_report(&self, key: u32, tables: Vec<(u32, Vec<(u64, u64)>)>) {
        let mut waiting = self.waiting.lock();
        let PendingReport { number, ports } = &mut *waiting;
        *number = number.wrapping_add(1);
        let frames = tables.iter().flat_map(|(table, entries)| {
            let some = entries.chunks(MAX_HITS).map(<[_]>::to_vec);
            // A table without hits has an empty report.
            let some: Vec<_> = if entries.is_empty() { vec![Vec::new()] } else { some.collect() };
            let frame = |entries| {
                HitReport { table: *table, instance: self.instance, sequence: *number, entries }.to_frame(key)
            };
            some.into_iter().map(frame).collect::<Vec<_>>()
        });
        let frames: Frames = frames.take(MAX_FRAMES).collect();
        ports.values_mut().for_each(|port| port.clone_from(&frames));
    }

    /// Takes some frames for a port.
    pub fn take_frames(&self, port: u32) -> Vec<Vec<u8>> {
        let Some(mut waiting) = self.waiting.try_lock() else { return Vec::new() };
        let Some(frames) = waiting.ports.get_mut(&port) else { return Vec::new() };
        let count = frames.len().min(MAX_BURST_FRAMES);
        frames.drain(..count).collect()
    }
}

/// Last report of a reporter.
#[derive(Default)]
struct Reporter {
    /// Link over which it is received; copies over other links are ignored.
    port: u32,
    /// Time of its last frame.
    last_frame_ns: u64,
    /// Sequence number of the last report, its start, and the time since the one before, in ns.
    number: u32,
    started_ns: u64,
    interval_ns: u64,
    tables: BTreeMap<u32, (u32, HashMap<u64, u64>)>,
}

/// Reports received by a switch.
#[derive(Default)]
pub struct HitReports {
    key: u32,
    heard: Mutex<HashMap<u64, Reporter>>,
}

impl HitReports {
    /// Creates an empty set for bridge headers with this key.
    pub fn new(key: u32) -> HitReports {
        HitReports { key, heard: Mutex::default() }
    }

    /// Processes a frame of a report from a link. Never blocks.
    pub fn receive_frame(&self, frame: &[u8], port: u32, now: u64) {
        let Some(HitReport { table, instance: reporter, sequence: sequence_number, entries }) =
            HitReport::read(frame, self.key)
        else {
            return;
        };
        let Some(mut reporters) = self.heard.try_lock() else { return };
        reporters.retain(|_, reporter| now.saturating_sub(reporter.last_frame_ns) <= MAX_REPORT_AGE_NS);
        if reporters.len() >= MAX_INSTANCES && !reporters.contains_key(&reporter) {
            return;
        }
        let new_reporter = || Reporter {
            port,
            number: sequence_number,
            started_ns: now,
            interval_ns: MAX_REPORT_AGE_NS,
            ..Reporter::default()
        };
        let reporter = reporters.entry(reporter).or_insert_with(new_reporter);
        if reporter.port != port || (reporter.tables.len() >= MAX_TABLES && !reporter.tables.contains_key(&table)) {
            return;
        }
        reporter.last_frame_ns = reporter.last_frame_ns.max(now);
        if reporter.number != sequence_number {
            reporter.interval_ns = now.saturating_sub(reporter.started_ns).max(MIN_REPORT_INTERVAL_NS);
            (reporter.number, reporter.started_ns) = (sequence_number, now);
        }
        let (last_number, hits) = reporter.tables.entry(table).or_default();
        if *last_number != sequence_number {
            *last_number = sequence_number;
            hits.clear();
        }
        for (entry, rate) in entries.into_iter().take(MAX_REPORTED_ENTRIES.saturating_sub(hits.len())) {
            hits.insert(entry, rate);
        }
    }

    /// Returns the hit rates of a table's entries in lower tiers, in thousandths per second, by
    /// fingerprint.
    pub fn hit_rates(&self, table: u32, now: u64) -> HashMap<u64, u64> {
        let heard = self.heard.lock();
        let mut all: HashMap<u64, u64> = HashMap::new();
        let fresh = heard.values().filter(|instance| {
            now.saturating_sub(instance.last_frame_ns)
                <= instance.interval_ns.saturating_mul(REPORTS_MISSED).min(MAX_REPORT_AGE_NS)
        });
        for (entry, rate) in fresh.filter_map(|instance| instance.tables.get(&table)).flat_map(|(_, hits)| hits) {
            let sum = all.entry(*entry).or_default();
            *sum = sum.saturating_add(*rate);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: u32 = 7;

    fn send(from: &ReportOutbox, port: u32, to: &HitReports, now: u64) -> usize {
        let mut count = 0;
        loop {
            let frames = from.take_frames(port);
            if frames.is_empty() {
                return count;
            }
            count += frames.len();
            frames.iter().for_each(|frame| to.receive_frame(frame, port, now));
        }
    }

    #[test]
    fn a_switch_knows_the_last_report_of_each_once() {
        let (one, two, switch) = (ReportOutbox::new(&[5, 6]), ReportOutbox::new(&[8]), HitReports::new(KEY));
        one.queue_report(KEY, vec![(0, vec![(11, 5), (12, 7)]), (1, Vec::new())]);
        two.queue_report(KEY, vec![(0, vec![(12, 1)])]);
        assert_eq!([send(&one, 5, &switch, 0), send(&one, 6, &switch, 0), send(&two, 8, &switch, 0)], [2, 2, 1]);
        assert_eq!(switch.hit_rates(0, 1), HashMap::from([(11, 5), (12, 8)]), "twice over two links is once");
        assert!(switch.hit_rates(1, 1).is_empty());
        one.queue_report(KEY, vec![(0, vec![(13, 2)])]);
        const SECOND: u64 = 1_000_000_000;
        send(&one, 5, &switch, SECOND);
        let both = HashMap::from([(12, 1), (13, 2)]);
        assert_eq!(switch.hit_rates(0, 4 * SECOND), both, "a new report is instead of the last one");
        assert_eq!(
            switch.hit_rates(0, 5 * SECOND),
            HashMap::from([(12, 1)]),
            "who reported each second does not any more"
        );
        assert!(switch.hit_rates(0, MAX_REPORT_AGE_NS + 1).is_empty(), "an old one does not count");
        assert_eq!(hit_rate_milli(3, 1_000_000_000), 3_000);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let (outbox, switch) = (ReportOutbox::new(&[5]), HitReports::new(KEY));
        outbox.queue_report(KEY, vec![(0, (0..200_000).map(|n| (n, 1)).collect())]);
        assert_eq!(send(&outbox, 5, &switch, 0), MAX_FRAMES);
        assert_eq!(switch.hit_rates(0, 0).len(), MAX_REPORTED_ENTRIES);
        let frame = |table, instance| HitReport { table, instance, sequence: 1, entries: vec![(1, 1)] }.to_frame(KEY);
        for n in 0..1_000 {
            switch.receive_frame(&frame(n, 1), 5, 0);
            switch.receive_frame(&frame(0, u64::from(n)), 5, 0);
        }
        let heard = switch.heard.lock();
        assert_eq!(heard.len(), MAX_INSTANCES);
        assert!(heard.values().all(|instance| instance.tables.len() <= MAX_TABLES));
    }
}
