//! [`HitTimes`]: the time of the last hit of each entry, written by packets without a lock.
//!
//! A lock for each hit would make workers wait for each other. So an engine with several workers
//! stores the time here, one word for each entry, and the host reads the word when it needs it:
//! when the deadline of the entry has come, or when the control plane reads the idle time.
//!
//! Only the latest time of an entry counts, so the order in which workers store does not matter.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Entries of the first chunk of a table; each further chunk has twice as many.
const FIRST_CHUNK: u64 = 1024;
/// Number of chunks: enough for 2^32 entries.
const CHUNKS: usize = 23;

/// Times of the last hits of one table's entries, by entry number. Memory grows with the largest
/// number and is never moved, because workers store while it grows.
#[derive(Debug, Default)]
struct TableHitTimes {
    chunks: [OnceLock<Box<[AtomicU64]>>; CHUNKS],
}

impl TableHitTimes {
    /// Returns the chunk of an entry number, and the index in it.
    fn locate(number: u32) -> (usize, usize) {
        let position = u64::from(number) + FIRST_CHUNK;
        let chunk = position.ilog2() - FIRST_CHUNK.ilog2();
        (chunk as usize, (position - (FIRST_CHUNK << chunk)) as usize)
    }

    fn cell(&self, number: u32) -> &AtomicU64 {
        let (chunk, index) = TableHitTimes::locate(number);
        let cells = self.chunks[chunk].get_or_init(|| {
            let zeros = std::iter::repeat_with(|| AtomicU64::new(0));
            zeros.take((FIRST_CHUNK as usize) << chunk).collect()
        });
        &cells[index]
    }

    fn allocated_cell(&self, number: u32) -> Option<&AtomicU64> {
        let (chunk, index) = TableHitTimes::locate(number);
        self.chunks[chunk].get().map(|cells| &cells[index])
    }

    fn get(&self, number: u32) -> u64 {
        self.allocated_cell(number).map_or(0, |cell| cell.load(Ordering::Relaxed))
    }
}

/// Times of the last hits of all entries of an engine, shared by its workers and its host.
#[derive(Debug)]
pub struct HitTimes {
    tables: Vec<TableHitTimes>,
    /// Latest time that the engine was told, in nanoseconds: by the control plane, or at the end of
    /// a batch of packets.
    clock_ns: AtomicU64,
}

impl HitTimes {
    /// Makes the times of `tables` tables; no entry was hit yet.
    pub(super) fn new(tables: usize) -> HitTimes {
        HitTimes {
            tables: std::iter::repeat_with(TableHitTimes::default).take(tables).collect(),
            clock_ns: AtomicU64::new(0),
        }
    }

    /// Returns the engine's time for a packet that arrived at `packet_ns`: never before a time that
    /// the engine was told.
    pub fn time_of(&self, packet_ns: u64) -> u64 {
        packet_ns.max(self.now())
    }

    /// Returns the latest time that the engine was told, in nanoseconds.
    pub fn now(&self) -> u64 {
        self.clock_ns.load(Ordering::Relaxed)
    }

    /// Advances the time for packets that are processed from now on.
    pub fn advance(&self, now_ns: u64) {
        if self.now() < now_ns {
            self.clock_ns.fetch_max(now_ns, Ordering::Relaxed);
        }
    }

    /// Records that a packet of the time `now_ns` restarted the idle timer of an entry. Ignored for
    /// a table that does not exist.
    #[inline]
    pub fn record(&self, table: usize, number: u32, now_ns: u64) {
        let Some(times) = self.tables.get(table) else { return };
        let cell = times.cell(number);
        // Most packets of a burst have the same time, and a line that is only read stays in the
        // caches of all cores.
        if cell.load(Ordering::Relaxed) < now_ns {
            cell.fetch_max(now_ns, Ordering::Relaxed);
        }
    }

    /// Returns the time of the last recorded hit in nanoseconds; 0: none.
    pub(super) fn last_hit_ns(&self, table: usize, number: u32) -> u64 {
        self.tables.get(table).map_or(0, |times| times.get(number))
    }

    /// Forgets the hits of an entry number, because another entry has it now.
    pub(super) fn reset(&self, table: usize, number: u32) {
        if let Some(times) = self.tables.get(table) {
            times.cell(number).store(0, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_has_its_own_cell() {
        let expected = [(0, (0, 0)), (1023, (0, 1023)), (1024, (1, 0)), (3071, (1, 2047)), (3072, (2, 0))];
        for (number, place) in expected {
            assert_eq!(TableHitTimes::locate(number), place, "{number}");
        }
        let (chunk, index) = TableHitTimes::locate(u32::MAX);
        assert!(chunk < CHUNKS && index < (FIRST_CHUNK as usize) << chunk);
    }

    #[test]
    fn only_the_latest_hit_counts() {
        let times = HitTimes::new(2);
        times.record(1, 5000, 30);
        times.record(1, 5000, 20);
        assert_eq!([times.last_hit_ns(1, 5000), times.last_hit_ns(0, 5000), times.last_hit_ns(1, 4999)], [30, 0, 0]);
        times.reset(1, 5000);
        assert_eq!(times.last_hit_ns(1, 5000), 0);
        times.record(2, 0, 1);
        times.advance(50);
        times.advance(40);
        assert_eq!([times.time_of(10), times.time_of(60)], [50, 60]);
    }
}
