//! [`Newcomers`]: flows that were seen once, while there was hardly room. A flow of one packet has no use for a rewrite; making one takes as long as running the packet five
//! times, and somebody else's has to go for it. So where there is little room left a flow is kept the second time it is seen.

use foldhash::fast::RandomState;
use std::hash::BuildHasher;

/// The part of all places that is left to flows that were seen before.
const LEFT: usize = 8;

/// Marks that there are at least.
const FEWEST: usize = 1 << 10;

/// Bytes by which packets without a key are told apart.
const BEGINNING: usize = 64;

/// See the module: marks of flows, by a hash of their keys. A later one takes the place of an earlier.
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

#[cfg(test)]
mod tests {
    use super::Newcomers;

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
}
