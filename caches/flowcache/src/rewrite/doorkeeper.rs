//! Admission of flows to a nearly full cache: [`Doorkeeper`] and [`InsertionThrottle`].
//!
//! Building the rewrite of a one-packet flow takes as long as running the packet five times, and
//! evicts another flow. So a nearly full cache admits a flow at its second packet. Packets of most
//! batches run without being recorded. While almost all packets miss, most batches skip the lookup
//! as well. Large flows are still admitted early, because they are seen often.

use foldhash::fast::RandomState;
use std::hash::BuildHasher;

/// Divisor of the capacity: below this share of free places, only flows that were seen before are
/// admitted.
const RESERVED_DIVISOR: usize = 8;

/// Minimum number of marks.
const MIN_MARKS: usize = 1 << 10;

/// Number of first bytes that identify packets without a key.
const HASHED_BYTES: usize = 64;

/// Flows that were seen once, as marks by a hash of their keys. A newer mark overwrites an older
/// one.
#[derive(Debug, Default)]
pub struct Doorkeeper {
    marks: Vec<u32>,
    state: RandomState,
}

impl Doorkeeper {
    /// Returns whether so few places are free that the doorkeeper applies.
    #[inline]
    pub fn is_needed(free: usize, capacity: usize) -> bool {
        free <= capacity / RESERVED_DIVISOR
    }

    /// Returns the hash of the first bytes, for packets without a key.
    pub fn packet_hash(&self, bytes: &[u8]) -> u64 {
        self.state.hash_one(&bytes[..bytes.len().min(HASHED_BYTES)])
    }

    /// Returns whether the flow was probably seen before, and marks it. `capacity`: number of marks
    /// at the first call.
    pub fn check_and_mark(&mut self, hash: u64, capacity: usize) -> bool {
        if self.marks.is_empty() {
            self.marks.resize(capacity.next_power_of_two().max(MIN_MARKS), 0);
        }
        let places = self.marks.len();
        let Some(mark) = self.marks.get_mut(hash as usize & (places - 1)) else { return true };
        // Marks are odd, so that 0 is no mark.
        let flow_mark = (hash >> 32) as u32 | 1;
        // An admitted flow frees its mark for other flows.
        let was_seen = *mark == flow_mark;
        *mark = if was_seen { 0 } else { flow_mark };
        was_seen
    }

    /// Returns the memory use in bytes.
    pub fn memory(&self) -> usize {
        4 * self.marks.len()
    }
}

/// One of this many batches inserts flows.
const INSERT_INTERVAL: u32 = 8;

/// Packets between two evaluations of the miss rate.
const EVALUATION_PACKETS: usize = 256;

/// Treatment of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BatchMode {
    /// Misses are recorded and can be inserted.
    Insert,
    /// Packets are looked up, but no flow is inserted.
    LookupOnly,
    /// Packets run without a lookup.
    Bypass,
}

/// Chooses the treatment of each batch for a nearly full cache.
#[derive(Debug, Default)]
pub struct InsertionThrottle {
    batches: u32,
    looked: usize,
    missed: usize,
    /// More than seven of eight packets missed.
    mostly_new: bool,
}

impl InsertionThrottle {
    /// Returns the treatment of the next batch.
    pub fn next_mode(&mut self) -> BatchMode {
        self.batches = self.batches.wrapping_add(1);
        match self.batches.is_multiple_of(INSERT_INTERVAL) {
            true => BatchMode::Insert,
            false if self.mostly_new => BatchMode::Bypass,
            false => BatchMode::LookupOnly,
        }
    }

    /// Records that `misses` of `lookups` packets had no rewrite.
    pub fn record_lookups(&mut self, lookups: usize, misses: usize) {
        (self.looked, self.missed) = (self.looked + lookups, self.missed + misses);
        if self.looked >= EVALUATION_PACKETS {
            self.mostly_new = self.missed > self.looked / 8 * 7;
            (self.looked, self.missed) = (0, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BatchMode, Doorkeeper, InsertionThrottle};

    #[test]
    fn whoever_comes_twice_is_known() {
        let (mut newcomers, mut rng) = (Doorkeeper::default(), fastrand::Rng::with_seed(6));
        let flows: Vec<u64> = (0..100).map(|_| rng.u64(..)).collect();
        let mut known = 0;
        for flow in flows.iter().chain(&flows) {
            known += u32::from(newcomers.check_and_mark(*flow, 1_000));
        }
        // Some flows overwrite the mark of another.
        assert!((75..=100).contains(&known), "{known}");
        let strangers = (0..100_000).filter(|_| newcomers.check_and_mark(rng.u64(..), 1_000)).count();
        assert!(strangers < 5, "{strangers}");
        assert_eq!(newcomers.memory(), 4_096);
    }

    #[test]
    fn one_batch_of_eight_is_looked_at_among_strangers() {
        let mut turns = InsertionThrottle::default();
        let mut counts = |missed| {
            let all: Vec<BatchMode> = (0..400)
                .map(|_| {
                    let turn = turns.next_mode();
                    if turn != BatchMode::Bypass {
                        turns.record_lookups(32, missed);
                    }
                    turn
                })
                .collect();
            [BatchMode::Insert, BatchMode::LookupOnly, BatchMode::Bypass]
                .map(|one| all.iter().filter(|turn| **turn == one).count())
        };
        assert_eq!(counts(10), [50, 350, 0]);
        let [keep, look, pass] = counts(31);
        assert!(keep == 50 && look < 10 && pass > 340, "{keep} {look} {pass}");
        // The throttle reacts when most flows hit again.
        let [keep, look, pass] = counts(1);
        assert!(keep == 50 && look > 270 && pass < 80, "{keep} {look} {pass}");
    }
}
