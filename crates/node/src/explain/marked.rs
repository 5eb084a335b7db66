//! [`Followed`]: what this process did with packets that have a mark in their bridge header, for whoever asks soon after.
//!
//! Marks are given where a packet comes in, while somebody follows packets (`mod.rs`), and never by a front port's network: what has a bridge header there is
//! dropped. A worker without such packets does nothing here. What is kept is bounded in packets, bytes and time; the oldest goes first, and a worker that finds the
//! ring taken does not wait.

use super::tap::Fate;
use packet::{Batch, Emission, Output};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Packets that are remembered.
pub const MAX_RECORDS: usize = 256;
/// Bytes of them, and of what became of them.
const MAX_BYTES: usize = 2 << 20;
/// Nanoseconds for which one is remembered.
const KEPT: u64 = 60_000_000_000;

/// From where a packet came to this process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Came {
    /// By a front port.
    Front,
    /// From the switch.
    Above,
    /// Back from the tiers below.
    Below,
}

/// The time that a packet was in one half's engine, with others of its batch: nanoseconds since the Unix epoch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Spent {
    /// Whether it was the lower half.
    pub lower: bool,
    /// What ran it.
    pub engine: String,
    /// When it got the batch.
    pub began: u64,
    /// When it had done.
    pub done: u64,
    /// What the engine said of it.
    pub told: Option<String>,
}

/// A packet with a mark.
#[derive(Clone, Debug)]
pub struct Record {
    /// The mark.
    pub mark: u16,
    /// From where it came.
    pub came: Came,
    /// As it came; none of a packet from a front port, which whoever marked it has.
    pub bytes: Vec<u8>,
    /// The port.
    pub port: u32,
    /// When, in nanoseconds since the Unix epoch.
    pub at: u64,
    /// The engines that it went through, in order.
    pub spent: Vec<Spent>,
    /// What became of it and its copies.
    pub fates: Vec<Fate>,
    /// Copies beyond those.
    pub more: usize,
}

impl Record {
    /// Notes what became of it: its emissions, of a batch.
    pub fn note(&mut self, emission: &Emission, batch: &Batch, out: &Output) {
        let packet = out.packet(batch, emission.packet).filter(|_| self.came != Came::Front);
        let bytes = packet.map(|packet| packet.bytes()).unwrap_or_default();
        Fate::note(&mut self.fates, &mut self.more, emission, bytes);
    }

    fn size(&self) -> usize {
        let fates = self.fates.iter().map(|fate| fate.bytes.len() + size_of::<Fate>());
        size_of::<Record>() + self.bytes.len() + fates.sum::<usize>()
    }
}

#[derive(Debug, Default)]
struct Ring {
    records: VecDeque<Arc<Record>>,
    bytes: usize,
}

impl Ring {
    /// The oldest go: those that are too old, and as many as there are too many.
    fn trim(&mut self, now: u64) {
        let stays = |record: &Arc<Record>| now.saturating_sub(record.at) <= KEPT;
        while self.records.len() > MAX_RECORDS
            || self.bytes > MAX_BYTES
            || self.records.front().is_some_and(|record| !stays(record))
        {
            let Some(gone) = self.records.pop_front() else { return };
            self.bytes -= gone.size();
        }
    }
}

/// The packets with marks of all workers.
#[derive(Debug, Default)]
pub struct Followed {
    ring: Mutex<Ring>,
    lost: AtomicU64,
}

impl Followed {
    /// Keeps what there is; never waits.
    pub fn keep(&self, records: impl Iterator<Item = Record>, now: u64) {
        let Some(mut ring) = self.ring.try_lock() else {
            self.lost.fetch_add(records.count() as u64, Relaxed);
            return;
        };
        for record in records {
            ring.bytes += record.size();
            ring.records.push_back(Arc::new(record));
            ring.trim(now);
        }
    }

    /// What is known of packets with that mark, the oldest first.
    pub fn of(&self, mark: u16, now: u64) -> Vec<Arc<Record>> {
        let mut ring = self.ring.lock();
        ring.trim(now);
        ring.records.iter().filter(|record| record.mark == mark).cloned().collect()
    }

    /// How many packets are remembered, and how many could not be.
    pub fn count(&self) -> (usize, u64) {
        let ring = self.ring.lock();
        (ring.records.len(), self.lost.load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(mark: u16, at: u64, bytes: usize) -> Record {
        let (spent, fates) = (Vec::new(), Vec::new());
        Record { mark, came: Came::Above, bytes: vec![0; bytes], port: 1, at, spent, fates, more: 0 }
    }

    #[test]
    fn what_is_remembered_is_bounded_in_packets_bytes_and_time() {
        let followed = Followed::default();
        followed.keep((1..=1_000).map(|mark| record(mark, u64::from(mark), 60)), 1_000);
        assert_eq!(followed.count(), (MAX_RECORDS, 0));
        assert!(followed.of(1, 1_000).is_empty(), "the oldest is gone");
        assert_eq!(followed.of(1_000, 1_000).len(), 1);
        followed.keep((1..=1_000).map(|mark| record(mark, 2_000, 60_000)), 2_000);
        assert_eq!(followed.count().0, MAX_BYTES / (60_000 + size_of::<Record>()));
        assert_eq!(followed.of(1_000, 2_000 + KEPT).len(), 1);
        assert!(followed.of(1_000, 2_001 + KEPT).is_empty() && followed.count().0 == 0, "they are too old");
        // While somebody reads, a worker goes on.
        let reading = followed.ring.lock();
        followed.keep([record(1, 3_000, 60)].into_iter(), 3_000);
        drop(reading);
        assert_eq!(followed.count(), (0, 1));
    }
}
