//! [`TraceIds`]: numbers by which packets are followed from process to process.
//!
//! The next number is unpredictable from outside, so that a forged frame is not taken for a
//! followed packet. The allocation rate is bounded, so that traces do not overload the lower tiers.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};

/// Maximum number of packets in flight with a trace id.
pub const MAX_IN_FLIGHT: usize = 256;
/// A packet with a trace id counts as in flight for this time (ns).
const IN_FLIGHT_NS: u64 = 1_000_000_000;
/// A number is not reused within this many allocations.
const REUSE_DISTANCE: usize = 4096;

/// Allocator of a node's trace ids.
#[derive(Debug, Default)]
pub struct TraceIds {
    seed: RandomState,
    count: u64,
    /// The last numbers with their allocation times, the newest last.
    given: VecDeque<(u16, u64)>,
}

impl TraceIds {
    /// Allocates a non-zero number. Returns `None` if too many packets are in flight.
    pub fn allocate_id(&mut self, now: u64) -> Option<u16> {
        let earlier = self.given.len().checked_sub(MAX_IN_FLIGHT).and_then(|at| self.given.get(at));
        if earlier.is_some_and(|(_, at)| now < at.saturating_add(IN_FLIGHT_NS)) {
            return None;
        }
        let mark = loop {
            self.count += 1;
            // A keyed hash of a counter: the next number is unpredictable without the key.
            let mark = self.seed.hash_one(self.count) as u16;
            if mark != 0 && self.given.iter().all(|(other, _)| *other != mark) {
                break mark;
            }
        };
        self.given.push_back((mark, now));
        if self.given.len() > REUSE_DISTANCE {
            self.given.pop_front();
        }
        Some(mark)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn they_differ_from_each_other_and_from_process_to_process_and_are_few() {
        let (mut one, mut two) = (TraceIds::default(), TraceIds::default());
        let first: Vec<u16> = (0..MAX_IN_FLIGHT as u64).filter_map(|n| one.allocate_id(n)).collect();
        assert_eq!(first.len(), MAX_IN_FLIGHT);
        assert_eq!(one.allocate_id(IN_FLIGHT_NS - 1), None, "so many are on their way");
        assert!(
            one.allocate_id(IN_FLIGHT_NS).is_some() && one.allocate_id(IN_FLIGHT_NS).is_none(),
            "the first one is not any more"
        );
        let other: Vec<u16> = (0..MAX_IN_FLIGHT as u64).filter_map(|n| two.allocate_id(n)).collect();
        assert_ne!(first, other, "they cannot be told beforehand");
        let mut all: HashSet<u16> = first.into_iter().collect();
        for n in 1..(REUSE_DISTANCE / MAX_IN_FLIGHT) as u64 {
            let some: Vec<u16> =
                (0..MAX_IN_FLIGHT as u64).filter_map(|_| one.allocate_id((n + 2) * IN_FLIGHT_NS)).collect();
            assert!(some.len() == MAX_IN_FLIGHT && some.into_iter().all(|mark| mark != 0 && all.insert(mark)));
        }
    }
}
