//! What is kept where there is hardly room: [`Newcomers`] and [`Turns`].
//!
//! A flow of one packet has no use for a rewrite. Making one takes as long as running the packet five times, and somebody else's has to go for it. So where there is little room left,
//! a flow is kept the second time it is seen; nothing is kept of most batches, whose packets run without being noted; and while nearly all packets are of flows
//! that nobody knows, most batches are not even looked for. Whoever sends much is seen soon in any case.

use foldhash::fast::RandomState;
use std::hash::BuildHasher;

/// The part of all places that is left to flows that were seen before.
const LEFT: usize = 8;

/// Marks that there are at least.
const FEWEST: usize = 1 << 10;

/// Bytes by which packets without a key are told apart.
const BEGINNING: usize = 64;

/// Flows that were seen once: marks, by a hash of their keys. A later one takes the place of an earlier.
#[derive(Debug, Default)]
pub struct Newcomers {
    marks: Vec<u32>,
    state: RandomState,
}

impl Newcomers {
    /// Whether so few places are free that it matters who comes.
    #[inline]
    pub fn matter(free: usize, room: usize) -> bool {
        free <= room / LEFT
    }

    /// The number of a packet that has no key, by its first bytes.
    pub fn number(&self, bytes: &[u8]) -> u64 {
        self.state.hash_one(&bytes[..bytes.len().min(BEGINNING)])
    }

    /// Whether this flow was seen before, as far as is known; from now on it was. There are marks for so many.
    pub fn are_known(&mut self, hash: u64, room: usize) -> bool {
        if self.marks.is_empty() {
            self.marks.resize(room.next_power_of_two().max(FEWEST), 0);
        }
        let places = self.marks.len();
        let Some(mark) = self.marks.get_mut(hash as usize & (places - 1)) else { return true };
        let own = (hash >> 32) as u32 | 1;
        // Who is let in leaves the place to others.
        let known = *mark == own;
        *mark = if known { 0 } else { own };
        known
    }

    /// Bytes in use.
    pub fn memory(&self) -> usize {
        4 * self.marks.len()
    }
}

/// One of so many batches is looked at for what to keep.
const TURNS: u32 = 8;

/// Packets from which it is seen how many are of flows that nobody knows.
const SEEN: usize = 256;

/// What is done with a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    /// Those packets that there is no rewrite for may leave one.
    Keep,
    /// They leave none.
    Look,
    /// All packets are run.
    Pass,
}

/// Which batches are looked at, where there is hardly room.
#[derive(Debug, Default)]
pub struct Turns {
    batches: u32,
    looked: usize,
    missed: usize,
    /// Of seven in eight packets nobody knew the flow.
    mostly_new: bool,
}

impl Turns {
    /// What is done with the next batch.
    pub fn next(&mut self) -> Turn {
        self.batches = self.batches.wrapping_add(1);
        match self.batches.is_multiple_of(TURNS) {
            true => Turn::Keep,
            false if self.mostly_new => Turn::Pass,
            false => Turn::Look,
        }
    }

    /// So many packets were looked for, and for so many of them there was no rewrite.
    pub fn saw(&mut self, looked: usize, missed: usize) {
        (self.looked, self.missed) = (self.looked + looked, self.missed + missed);
        if self.looked >= SEEN {
            self.mostly_new = self.missed > self.looked / 8 * 7;
            (self.looked, self.missed) = (0, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Newcomers, Turn, Turns};

    #[test]
    fn whoever_comes_twice_is_known() {
        let (mut newcomers, mut rng) = (Newcomers::default(), fastrand::Rng::with_seed(6));
        let flows: Vec<u64> = (0..100).map(|_| rng.u64(..)).collect();
        let mut known = 0;
        for flow in flows.iter().chain(&flows) {
            known += u32::from(newcomers.are_known(*flow, 1_000));
        }
        // Some take the mark of another.
        assert!((75..=100).contains(&known), "{known}");
        let strangers = (0..100_000).filter(|_| newcomers.are_known(rng.u64(..), 1_000)).count();
        assert!(strangers < 5, "{strangers}");
        assert_eq!(newcomers.memory(), 4_096);
    }

    #[test]
    fn one_batch_of_eight_is_looked_at_among_strangers() {
        let mut turns = Turns::default();
        let mut counts = |missed| {
            let all: Vec<Turn> = (0..400)
                .map(|_| {
                    let turn = turns.next();
                    if turn != Turn::Pass {
                        turns.saw(32, missed);
                    }
                    turn
                })
                .collect();
            [Turn::Keep, Turn::Look, Turn::Pass].map(|one| all.iter().filter(|turn| **turn == one).count())
        };
        assert_eq!(counts(10), [50, 350, 0]);
        let [keep, look, pass] = counts(31);
        assert!(keep == 50 && look < 10 && pass > 340, "{keep} {look} {pass}");
        // Soon after the flows are known.
        let [keep, look, pass] = counts(1);
        assert!(keep == 50 && look > 270 && pass < 80, "{keep} {look} {pass}");
    }
}
