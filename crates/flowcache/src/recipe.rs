//! [`Recipe`]: the segments of a way, without the values: what a packet that takes a known way needs no analysis for.
//!
//! With [`crate::Kind::Exact`] what a traversal asks for, does, and asks of tables depends on its decisions alone ([`crate::justify::Justify::new`]). So the first packet
//! of a way has its decisions retraced ([`Record::retrace`]) and cut into segments; those that follow only have their values put in.

use crate::effects::Slots;
use crate::record::Record;
use crate::segment::{Play, Refused, Segment, Traversal, Uncacheable, put_found};
use crate::trail::{Decision, Trail};
use crate::way::{Source, Way};
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use interp::walk::{Outcome, Pc, Slot, State};
use std::hash::BuildHasher;
use std::sync::Arc;

/// The most ways that are known; when there are more, all are forgotten.
const MAX_WAYS: usize = 4_096;
/// The most decisions and instructions of all ways that are known.
const MAX_SIZE: usize = 1 << 20;

/// A segment of a way.
#[derive(Clone, Debug)]
pub struct Part {
    /// What its segments share.
    pub way: Arc<Way>,
    /// In front of which of the table applications of the whole traversal it begins; `None`: at its start.
    begins: Option<usize>,
    /// Its first table application.
    first: usize,
    /// Where its own words come from: table application, and word of the key.
    own: Box<[(usize, usize)]>,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Recipe {
    start: Pc,
    ended: Ended,
    decisions: Box<[Decision]>,
    hash: u64,
    /// Its segments, in order.
    pub parts: Box<[Part]>,
    /// What can't be kept of it.
    pub refused: Box<[Uncacheable]>,
}

/// How a control ended, as far as it tells ways apart.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Ended {
    Return,
    Exit,
    Other,
}

impl Ended {
    fn of(outcome: Outcome) -> Ended {
        match outcome {
            Outcome::Return => Ended::Return,
            Outcome::Exit => Ended::Exit,
            Outcome::Reject | Outcome::Abort(_) => Ended::Other,
        }
    }
}

impl Recipe {
    /// Its one segment, if that is all of the way and the same whatever differs from packet to packet.
    pub fn whole(&self) -> Option<&Part> {
        let [part] = &*self.parts else { return None };
        let checked = part.way.plays.iter().any(|play| matches!(play, Play::Check { .. }));
        let all = part.begins.is_none() && part.way.tag == 0 && part.way.end.outcome().is_some();
        (all && !checked && self.refused.is_empty()).then_some(part)
    }
}

impl Part {
    fn new(traversal: &Traversal<'_>, first: usize, segment: Segment) -> Part {
        let way = segment.way;
        let before = traversal.applications_before(first);
        let mut own = vec![(0, 0); way.own];
        for (at, question) in way.questions.iter().enumerate() {
            for (word, source) in question.key.iter().enumerate() {
                if let Source::Own(place) = source {
                    own[*place as usize] = (before + at, word);
                }
            }
        }
        Part { way, begins: (first > 0).then_some(before), first: before, own: own.into() }
    }

    /// The segment that a packet gives. `None`: its state where the segment begins was not kept.
    pub fn segment(&self, slots: &Slots, trail: &Trail) -> Option<Segment> {
        let state = trail.state(self.begins)?;
        let mut body = vec![0; self.way.body()].into_boxed_slice();
        let (values, rest) = body.split_at_mut(self.way.asks.words());
        self.way.asks.gather(slots, state, slots.first, values);
        let (own, found) = rest.split_at_mut(self.way.own);
        for (word, (application, key)) in own.iter_mut().zip(&self.own) {
            *word = trail.key(*application)[*key];
        }
        put_found(found, trail.found[self.first..].iter().copied().take(self.way.questions.len()));
        Some(Segment { way: self.way.clone(), body })
    }

    /// The segment that a packet at the start of the control gives whose way is foreseen: `own` are the slots of its own words, `found` is what tables will find.
    pub fn foreseen(&self, slots: &Slots, state: State<'_>, own: &[Slot], found: &[Option<u32>]) -> Segment {
        let mut body = vec![0; self.way.body()].into_boxed_slice();
        let (values, rest) = body.split_at_mut(self.way.asks.words());
        self.way.asks.gather(slots, state, 0, values);
        let (words, room) = rest.split_at_mut(self.way.own);
        words.iter_mut().zip(own).for_each(|(word, slot)| *word = state.slots[*slot as usize]);
        put_found(room, found.iter().copied());
        Segment { way: self.way.clone(), body }
    }

    /// Where its own words come from: table application of the whole traversal, and word of the key.
    pub fn own(&self) -> &[(usize, usize)] {
        &self.own
    }

    /// The table application in front of which it begins, if not at the start of the traversal.
    pub fn begins_at(&self) -> Option<Pc> {
        self.begins.map(|_| self.way.tag)
    }
}

/// As few segments as there can be of a traversal, each with its first unit; and what can't be kept.
pub fn wholes(traversal: &Traversal<'_>, make: impl Fn(usize, usize) -> Result<Segment, Refused>) -> Wholes {
    let units = traversal.units();
    let mut made = Wholes::default();
    let (mut first, mut last) = (0, units - 1);
    while first < units {
        match make(first, last) {
            Ok(segment) => {
                made.segments.push((first, segment));
                (first, last) = (last + 1, units - 1);
            }
            Err(Refused::CutAt(unit)) if unit > first => last = unit - 1,
            // What comes before the table that is at fault can be kept.
            Err(_) if last > first => last -= 1,
            Err(Refused::No(reason)) => {
                made.refused.push(reason);
                break;
            }
            Err(Refused::CutAt(_)) => break,
        }
    }
    made
}

/// What [`wholes`] gives.
#[derive(Clone, Debug, Default)]
pub struct Wholes {
    /// Segments, each with its first unit.
    pub segments: Vec<(usize, Segment)>,
    /// See above.
    pub refused: Vec<Uncacheable>,
}

/// The recipes of a program. Packets choose the ways, so they are hashed with a seed.
#[derive(Clone, Debug, Default)]
pub struct Recipes {
    all: Vec<Recipe>,
    by_way: HashTable<u32>,
    size: usize,
    hasher: RandomState,
}

impl Recipes {
    fn hash(&self, start: Pc, ended: Ended, decisions: &[Decision]) -> u64 {
        self.hasher.hash_one((start, ended, decisions))
    }

    /// Of these numbers, and all others were forgotten just now.
    pub fn starts_anew(made: usize) -> bool {
        made == 0
    }

    /// The number of the recipe for a packet that went this way.
    pub fn find(&self, start: Pc, outcome: Outcome, decisions: &[Decision]) -> Option<usize> {
        let ended = Ended::of(outcome);
        let hash = self.hash(start, ended, decisions);
        let same = |at: &u32| {
            let Recipe { start: of, ended: how, decisions: all, hash: other, .. } = &self.all[*at as usize];
            (*other, *of, *how) == (hash, start, ended) && **all == *decisions
        };
        self.by_way.find(hash, same).map(|at| *at as usize)
    }

    /// The recipe of a number that [`Recipes::find`] or [`Recipes::make`] gave just now.
    pub fn get(&self, number: usize) -> &Recipe {
        &self.all[number]
    }

    /// Makes the recipe for a way of which `record` has the steps, and `traversal` all else: its number.
    pub fn make(
        &mut self,
        traversal: &Traversal<'_>,
        record: &Record,
        outcome: Outcome,
        decisions: &[Decision],
    ) -> usize {
        if self.all.len() >= MAX_WAYS || self.size > MAX_SIZE {
            self.all.clear();
            self.by_way.clear();
            self.size = 0;
        }
        let made = wholes(traversal, |first, last| traversal.segment(None, first, last));
        let parts = made.segments.into_iter().map(|(first, segment)| Part::new(traversal, first, segment));
        let ended = Ended::of(outcome);
        let hash = self.hash(record.start, ended, decisions);
        let recipe = Recipe {
            start: record.start,
            ended,
            decisions: decisions.into(),
            hash,
            parts: parts.collect(),
            refused: made.refused.into(),
        };
        self.size += decisions.len() + recipe.parts.iter().map(|part| part.way.plays.len()).sum::<usize>();
        self.by_way.insert_unique(hash, self.all.len() as u32, |at| self.all[*at as usize].hash);
        self.all.push(recipe);
        self.all.len() - 1
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}
