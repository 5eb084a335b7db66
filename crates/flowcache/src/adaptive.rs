//! [`Adaptive`]: whether traversals of a kind are better kept whole, or cut.
//!
//! Cutting pays if the pieces of different traversals are the same ones. So, for each way through the program, a sample of the traversals is watched: how
//! many different whole ones there were, and how many different pieces they would be cut into. If the pieces are fewer, they are cut. The sample is by hash, so
//! that what is in it is seen each time; it begins anew after some thousand traversals, so that a change of traffic is noticed.

use std::collections::{HashMap, HashSet};

type Fast = foldhash::fast::RandomState;

/// Traversals of a way that are watched before the first choice.
const FIRST: usize = 16;
/// Different traversals in the sample after which it begins anew.
const WINDOW: usize = 2_048;
/// The most ways that are watched.
const MAX_WAYS: usize = 4_096;

/// What was seen of a way.
#[derive(Clone, Debug, Default)]
struct Way {
    wholes: HashSet<u64, Fast>,
    pieces: HashSet<u64, Fast>,
    /// The choice of the window before.
    cut: Option<bool>,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Adaptive {
    ways: HashMap<u64, Way, Fast>,
}

impl Adaptive {
    /// Notes a traversal that was made: the hash of the whole, and those of its pieces. True if it is better cut.
    pub fn choose(&mut self, way: u64, whole: u64, pieces: impl Iterator<Item = u64>) -> bool {
        if self.ways.len() >= MAX_WAYS && !self.ways.contains_key(&way) {
            return true;
        }
        let way = self.ways.entry(way).or_default();
        way.wholes.insert(whole);
        way.pieces.extend(pieces);
        let gains = || way.pieces.len() < way.wholes.len();
        let choice = match way.wholes.len() {
            seen if seen < FIRST => way.cut.unwrap_or(true),
            _ => gains(),
        };
        if way.wholes.len() >= WINDOW {
            let cut = Some(choice);
            *way = Way { cut, ..Way::default() };
        }
        choice
    }
}
