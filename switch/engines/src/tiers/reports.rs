//! What tiers below tell a switch in another process of hits: [`Outbox`] there, [`Reports`] here.
//!
//! A report has, of each hot table, the entries that were found most below since the last one, as rates. It goes over the links, in a few frames; one that is lost
//! costs nothing but a worse choice. The switch remembers the last report of each that reports, for a while, and a bounded number of entries.

use offload::cut::wire::{Hits, MAX_HITS};
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};

/// Entries of a table that a report has at most.
pub const MOST: usize = 64 * MAX_HITS;
/// Frames that wait for a port.
const MAX_FRAMES: usize = 512;
/// Frames that are sent at a time.
const BURST: usize = 16;
/// Who may report to a switch.
const MAX_INSTANCES: usize = 64;
/// Tables of which reports are remembered, of each who reports.
const MAX_TABLES: usize = 64;
/// Nanoseconds for which a report counts at most. One that should have been followed by others for a while does not: who made it is gone.
const FRESH: u64 = 10_000_000_000;

/// So many reports may be missing.
const REPORTS_MISSED: u64 = 3;

/// Reports that come one after the other are taken to be so many nanoseconds apart at least.
const LEAST: u64 = 100_000_000;

/// Thousandths of hits a second.
pub fn rate(hits: u64, nanoseconds: u64) -> u64 {
    u64::try_from(u128::from(hits) * 1_000_000_000_000 / u128::from(nanoseconds.max(1))).unwrap_or(u64::MAX)
}

/// Frames that wait to be sent to switches.
pub struct Outbox {
    instance: u64,
    waiting: Mutex<Waiting>,
}

/// The last report's number, and what of it waits for each port.
struct Waiting {
    number: u32,
    ports: BTreeMap<u32, Frames>,
}

type Frames = VecDeque<Vec<u8>>;

impl Outbox {
    /// For these ports.
    pub fn new(ports: &[u32]) -> Outbox {
        let ports = ports.iter().map(|port| (*port, Frames::new())).collect();
        Outbox { instance: RandomState::new().hash_one(0), waiting: Mutex::new(Waiting { number: 0, ports }) }
    }

    /// A new report: for each table its entries. What waits of the last one goes away.
    pub fn put(&self, key: u32, tables: Vec<(u32, Vec<(u64, u64)>)>) {
        let mut waiting = self.waiting.lock();
        let Waiting { number, ports } = &mut *waiting;
        *number = number.wrapping_add(1);
        let frames = tables.iter().flat_map(|(table, entries)| {
            let some = entries.chunks(MAX_HITS).map(<[_]>::to_vec);
            // Also that there are none.
            let some: Vec<_> = if entries.is_empty() { vec![Vec::new()] } else { some.collect() };
            let frame = |entries| Hits { table: *table, instance: self.instance, number: *number, entries }.frame(key);
            some.into_iter().map(frame).collect::<Vec<_>>()
        });
        let frames: Frames = frames.take(MAX_FRAMES).collect();
        ports.values_mut().for_each(|port| port.clone_from(&frames));
    }

    /// Some frames for a port.
    pub fn take(&self, port: u32) -> Vec<Vec<u8>> {
        let Some(mut waiting) = self.waiting.try_lock() else { return Vec::new() };
        let Some(frames) = waiting.ports.get_mut(&port) else { return Vec::new() };
        let count = frames.len().min(BURST);
        frames.drain(..count).collect()
    }
}

/// The last report of one who reports.
#[derive(Default)]
struct Instance {
    /// The link over which it is heard; over others it says the same.
    port: u32,
    /// When its last frame came.
    at: u64,
    /// Its last report: its number, when it began, and how long after the one before.
    number: u32,
    began: u64,
    every: u64,
    tables: BTreeMap<u32, (u32, HashMap<u64, u64>)>,
}

/// What was reported.
#[derive(Default)]
pub struct Reports {
    key: u32,
    heard: Mutex<HashMap<u64, Instance>>,
}

impl Reports {
    /// For bridge headers with that key.
    pub fn new(key: u32) -> Reports {
        Reports { key, heard: Mutex::default() }
    }

    /// A frame of a report has come over a link. Never waits.
    pub fn hear(&self, frame: &[u8], port: u32, now: u64) {
        let Some(Hits { table, instance, number, entries }) = Hits::read(frame, self.key) else { return };
        let Some(mut heard) = self.heard.try_lock() else { return };
        heard.retain(|_, instance| now.saturating_sub(instance.at) <= FRESH);
        if heard.len() >= MAX_INSTANCES && !heard.contains_key(&instance) {
            return;
        }
        let new = || Instance { port, number, began: now, every: FRESH, ..Instance::default() };
        let instance = heard.entry(instance).or_insert_with(new);
        if instance.port != port || (instance.tables.len() >= MAX_TABLES && !instance.tables.contains_key(&table)) {
            return;
        }
        instance.at = instance.at.max(now);
        if instance.number != number {
            instance.every = now.saturating_sub(instance.began).max(LEAST);
            (instance.number, instance.began) = (number, now);
        }
        let (known, hits) = instance.tables.entry(table).or_default();
        if *known != number {
            *known = number;
            hits.clear();
        }
        for (entry, rate) in entries.into_iter().take(MOST.saturating_sub(hits.len())) {
            hits.insert(entry, rate);
        }
    }

    /// Thousandths of hits a second of a table's entries below, by their fingerprints.
    pub fn of(&self, table: u32, now: u64) -> HashMap<u64, u64> {
        let heard = self.heard.lock();
        let mut all: HashMap<u64, u64> = HashMap::new();
        let fresh = heard.values().filter(|instance| {
            now.saturating_sub(instance.at) <= instance.every.saturating_mul(REPORTS_MISSED).min(FRESH)
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

    fn send(from: &Outbox, port: u32, to: &Reports, now: u64) -> usize {
        let mut count = 0;
        loop {
            let frames = from.take(port);
            if frames.is_empty() {
                return count;
            }
            count += frames.len();
            frames.iter().for_each(|frame| to.hear(frame, port, now));
        }
    }

    #[test]
    fn a_switch_knows_the_last_report_of_each_once() {
        let (one, two, switch) = (Outbox::new(&[5, 6]), Outbox::new(&[8]), Reports::new(KEY));
        one.put(KEY, vec![(0, vec![(11, 5), (12, 7)]), (1, Vec::new())]);
        two.put(KEY, vec![(0, vec![(12, 1)])]);
        assert_eq!([send(&one, 5, &switch, 0), send(&one, 6, &switch, 0), send(&two, 8, &switch, 0)], [2, 2, 1]);
        assert_eq!(switch.of(0, 1), HashMap::from([(11, 5), (12, 8)]), "twice over two links is once");
        assert!(switch.of(1, 1).is_empty());
        one.put(KEY, vec![(0, vec![(13, 2)])]);
        const SECOND: u64 = 1_000_000_000;
        send(&one, 5, &switch, SECOND);
        let both = HashMap::from([(12, 1), (13, 2)]);
        assert_eq!(switch.of(0, 4 * SECOND), both, "a new report is instead of the last one");
        assert_eq!(switch.of(0, 5 * SECOND), HashMap::from([(12, 1)]), "who reported each second does not any more");
        assert!(switch.of(0, FRESH + 1).is_empty(), "an old one does not count");
        assert_eq!(rate(3, 1_000_000_000), 3_000);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let (outbox, switch) = (Outbox::new(&[5]), Reports::new(KEY));
        outbox.put(KEY, vec![(0, (0..200_000).map(|n| (n, 1)).collect())]);
        assert_eq!(send(&outbox, 5, &switch, 0), MAX_FRAMES);
        assert_eq!(switch.of(0, 0).len(), MOST);
        let frame = |table, instance| Hits { table, instance, number: 1, entries: vec![(1, 1)] }.frame(KEY);
        for n in 0..1_000 {
            switch.hear(&frame(n, 1), 5, 0);
            switch.hear(&frame(0, u64::from(n)), 5, 0);
        }
        let heard = switch.heard.lock();
        assert_eq!(heard.len(), MAX_INSTANCES);
        assert!(heard.values().all(|instance| instance.tables.len() <= MAX_TABLES));
    }
}
