//! [`Marks`]: numbers by which packets are followed from process to process.
//!
//! Nobody outside can tell which number comes next, so that a frame that somebody has made is not taken for a packet that is followed. Few are given in a time, so
//! that those who follow packets do not become work for the tiers below.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};

/// So many packets may be on their way with a mark at a time.
pub const MOST: usize = 256;
/// A packet with a mark is taken to be on its way for so many nanoseconds.
const WAY: u64 = 1_000_000_000;
/// A number is not given again while it is among the last so many.
const LAST: usize = 4096;

/// The marks of a node.
#[derive(Debug, Default)]
pub struct Marks {
    seed: RandomState,
    count: u64,
    /// The last ones, the newest last, with when they were given.
    given: VecDeque<(u16, u64)>,
}

impl Marks {
    /// One that is not 0. `None`: too many packets are on their way.
    pub fn give(&mut self, now: u64) -> Option<u16> {
        let earlier = self.given.len().checked_sub(MOST).and_then(|at| self.given.get(at));
        if earlier.is_some_and(|(_, at)| now < at.saturating_add(WAY)) {
            return None;
        }
        let mark = loop {
            self.count += 1;
            // A keyed hash of a counter: who does not know the key does not know the next one.
            let mark = self.seed.hash_one(self.count) as u16;
            if mark != 0 && self.given.iter().all(|(other, _)| *other != mark) {
                break mark;
            }
        };
        self.given.push_back((mark, now));
        if self.given.len() > LAST {
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
        let (mut one, mut two) = (Marks::default(), Marks::default());
        let first: Vec<u16> = (0..MOST as u64).filter_map(|n| one.give(n)).collect();
        assert_eq!(first.len(), MOST);
        assert_eq!(one.give(WAY - 1), None, "so many are on their way");
        assert!(one.give(WAY).is_some() && one.give(WAY).is_none(), "the first one is not any more");
        let other: Vec<u16> = (0..MOST as u64).filter_map(|n| two.give(n)).collect();
        assert_ne!(first, other, "they cannot be told beforehand");
        let mut all: HashSet<u16> = first.into_iter().collect();
        for n in 1..(LAST / MOST) as u64 {
            let some: Vec<u16> = (0..MOST as u64).filter_map(|_| one.give((n + 2) * WAY)).collect();
            assert!(some.len() == MOST && some.into_iter().all(|mark| mark != 0 && all.insert(mark)));
        }
    }
}
