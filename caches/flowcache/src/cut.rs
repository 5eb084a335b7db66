//! What is kept of a traversal that the slow path has recorded: as one segment, or cut into several, and in which tables.

use crate::cache::Caches;
use crate::config::Kind;
use crate::partition::{Fields, as_few, by_fields, partition};
use crate::record::Record;
use crate::samples::Samples;
use crate::segment::{Refused, Segment, Traversal, Uncacheable};
use crate::sharing::{Costs, Unit};
use interp::walk::{Outcome, Walker};
use std::hash::BuildHasher;

/// What a record gives to be kept.
#[derive(Default)]
struct Made {
    /// Segments, each with its first and last unit.
    segments: Vec<Piece>,
    /// The whole traversal as one segment, if there is a choice.
    whole: Option<Piece>,
    units: Vec<Unit>,
    way: u64,
    refused: Vec<Uncacheable>,
    /// There are fewer positions than segments, but so many would do.
    least: Option<usize>,
    /// The cut goes by what was measured.
    measured: bool,
}

/// A segment, its first and its last unit.
type Piece = (Segment, usize, usize);

/// The units of a traversal that can be kept, each as a segment of its own, and why the next one can't.
struct Units {
    segments: Vec<Segment>,
    refused: Option<Uncacheable>,
}

impl Units {
    fn new(traversal: &Traversal<'_>, walker: &Walker<'_>) -> Units {
        let mut units = Units { segments: Vec::new(), refused: None };
        for unit in 0..traversal.units() {
            match traversal.segment(walker, unit, unit) {
                Ok(segment) => units.segments.push(segment),
                Err(Refused::No(reason)) => {
                    units.refused = Some(reason);
                    break;
                }
                Err(Refused::CutAt(_)) => break,
            }
        }
        units
    }

    /// At which fields of headers each looks.
    fn fields(&self, fields: &[Option<u32>]) -> Vec<Fields> {
        let of = |segment: &Segment| -> Fields {
            segment.mask.iter().filter_map(|(slot, _)| fields[*slot as usize]).collect()
        };
        self.segments.iter().map(of).collect()
    }

    /// Cuts the traversal into at most so many segments. `None`: that can't be.
    fn cut(
        &self,
        traversal: &Traversal<'_>,
        walker: &Walker<'_>,
        room: usize,
        worth: &dyn Fn(usize, usize) -> i64,
    ) -> Option<Vec<Piece>> {
        let units = self.segments.len();
        if units == 0 {
            return Some(Vec::new());
        }
        let mut must = vec![false; units];
        // A table whose key differs from packet to packet begins a segment; that is found as segments are made.
        'again: for _ in 0..=units {
            let parts = partition(units, room, &|unit| must[unit], worth)?;
            let mut pieces = Vec::with_capacity(parts.len());
            for (first, last) in parts {
                let segment = match first == last {
                    true => Ok(self.segments[first].clone()),
                    false => traversal.segment(walker, first, last),
                };
                match segment {
                    Ok(segment) => pieces.push((segment, first, last)),
                    Err(Refused::CutAt(unit)) if unit > first && !must[unit] => {
                        must[unit] = true;
                        continue 'again;
                    }
                    Err(_) => return None,
                }
            }
            return Some(pieces);
        }
        None
    }
}

/// As few segments as there can be of a traversal; and what can't be kept.
fn as_long(traversal: &Traversal<'_>, walker: &Walker<'_>) -> (Vec<Piece>, Vec<Uncacheable>) {
    let units = traversal.units();
    let (mut segments, mut refused) = (Vec::new(), Vec::new());
    let (mut first, mut last) = (0, units - 1);
    while first < units {
        match traversal.segment(walker, first, last) {
            Ok(segment) => {
                segments.push((segment, first, last));
                (first, last) = (last + 1, units - 1);
            }
            Err(Refused::CutAt(unit)) if unit > first => last = unit - 1,
            // What comes before the table that is at fault can be kept.
            Err(_) if last > first => last -= 1,
            Err(Refused::No(reason)) => {
                refused.push(reason);
                break;
            }
            Err(Refused::CutAt(_)) => break,
        }
    }
    (segments, refused)
}

impl Caches {
    /// The pieces that a traversal is cut into when none of it is kept yet: first and last unit of each. A cache that keeps whole traversals would cut by the fields, as often as
    /// it likes.
    pub(crate) fn pieces(&self, traversal: &Traversal<'_>, walker: &Walker<'_>) -> Vec<(usize, usize)> {
        let units = Units::new(traversal, walker);
        let made = if self.is_chain() {
            let ids = self.ids(traversal, &units);
            let costs = self.samples.as_ref().and_then(|samples| samples.known(&ids));
            self.cut_at((traversal, walker), &units, 0, costs.map(|costs| (costs, 0)))
        } else {
            let fields = by_fields(&units.fields(&self.fields));
            units.cut(traversal, walker, traversal.units(), &|first, last| fields[first][last])
        };
        made.unwrap_or_default().into_iter().map(|(_, first, last)| (first, last)).collect()
    }

    fn id(&self, segment: &Segment) -> u64 {
        self.hasher.hash_one((segment.tag, &segment.mask, &segment.values))
    }

    /// What tells units from others.
    fn ids(&self, traversal: &Traversal<'_>, units: &Units) -> Vec<Unit> {
        let one =
            |(unit, segment): (usize, &Segment)| Unit { tag: traversal.tag(unit), id: (self.id(segment) >> 32) as u32 };
        units.segments.iter().enumerate().map(one).collect()
    }

    /// Makes segments of a record and keeps them, at the positions from `from` on. If these are too few: how many would do.
    pub(crate) fn keep(
        &mut self,
        walker: &Walker<'_>,
        record: &Record,
        outcome: Outcome,
        from: usize,
    ) -> Option<usize> {
        let made = self.make(walker, record, outcome, from);
        let least = made.least;
        self.keep_made(made, walker.now(), from);
        least
    }

    fn make(&mut self, walker: &Walker<'_>, record: &Record, outcome: Outcome, from: usize) -> Made {
        let mut samples = self.samples.take();
        let traversal = Traversal::new(self.ground(walker), record, outcome);
        let made = match self.config.kind {
            Kind::Exact | Kind::Megaflow => {
                let (segments, refused) = as_long(&traversal, walker);
                Made { segments, refused, ..Made::default() }
            }
            Kind::SubTraversal { .. } | Kind::Adaptive { .. } => {
                self.make_pieces(&traversal, walker, from, samples.as_mut())
            }
        };
        let made = self.with_whole(made, &traversal, walker);
        self.samples = samples;
        made
    }

    fn make_pieces(
        &self,
        traversal: &Traversal<'_>,
        walker: &Walker<'_>,
        at: usize,
        samples: Option<&mut Samples>,
    ) -> Made {
        let units = Units::new(traversal, walker);
        let ids = self.ids(traversal, &units);
        let before = samples.as_ref().and_then(|samples| samples.so_far());
        let costs = samples.zip(before.as_ref()).and_then(|(samples, before)| {
            let costs = samples.missed(before, &ids)?;
            Some((costs, before.len()))
        });
        let pieces = self.cut_at((traversal, walker), &units, at, costs);
        let least = pieces.is_none().then(|| {
            // Those that are left do not.
            let (left, all) = (self.positions().saturating_sub(at), self.positions());
            let does = |room: &usize| units.cut(traversal, walker, *room, &|_, _| 0).is_some();
            (left + 1..=all).find(does).unwrap_or(usize::MAX)
        });
        let segments = pieces.unwrap_or_default();
        let mut made = Made { segments, least, measured: costs.is_some(), ..Made::default() };
        (made.units, made.refused) = (ids, units.refused.into_iter().collect());
        made
    }

    /// Cuts units for the positions from `at` on: for the tables that are left of this pass, and if that can't be, or makes more entries than there have to be, for as few of the
    /// next pass besides as do. `costs`: what was measured of the way, of which the first unit here has that number.
    fn cut_at(
        &self,
        (traversal, walker): (&Traversal<'_>, &Walker<'_>),
        units: &Units,
        at: usize,
        costs: Option<(&Costs, usize)>,
    ) -> Option<Vec<Piece>> {
        let fields = by_fields(&units.fields(&self.fields));
        // Where what was measured makes no difference, the fields decide.
        let worth = |first: usize, last: usize| {
            costs.map_or(0, |(costs, from)| costs.worth(from + first, from + last)) + fields[first][last]
        };
        let makes_more = |pieces: &Vec<Piece>| {
            let more =
                |(_, first, last): &Piece| costs.is_some_and(|(c, from)| c.makes_more(from + first, from + last));
            pieces.iter().any(more)
        };
        let left = self.positions().saturating_sub(at);
        let this_pass = (self.stores.len() - at % self.stores.len()).min(left);
        let rooms = this_pass..=left.min(units.segments.len()).max(this_pass);
        as_few(rooms, |room| units.cut(traversal, walker, room, &worth), makes_more)
    }

    /// The adaptive cache has the choice to keep all of it as one.
    fn with_whole(&self, mut made: Made, traversal: &Traversal<'_>, walker: &Walker<'_>) -> Made {
        made.way = traversal.way();
        let ends = made.segments.last().is_some_and(|(last, ..)| last.end.outcome().is_some());
        if matches!(self.config.kind, Kind::Adaptive { .. }) && made.segments.len() > 1 && ends {
            let last = traversal.units() - 1;
            made.whole = traversal.segment(walker, 0, last).ok().map(|segment| (segment, 0, last));
        }
        made
    }

    fn keep_made(&mut self, made: Made, now: u64, from: usize) {
        for reason in &made.refused {
            *self.stats.uncacheable.entry(*reason).or_default() += 1;
        }
        self.stats.rejected += u64::from(made.least.is_some());
        self.stats.measured += u64::from(made.measured);
        // The adaptive cache keeps a traversal whole where cutting it gains nothing.
        let segments = match made.whole {
            None => made.segments,
            Some(whole) => {
                let id_of_whole = self.id(&whole.0);
                let pieces: Vec<u64> = made.segments.iter().map(|(piece, ..)| self.id(piece)).collect();
                match self.adaptive.choose(made.way, id_of_whole, pieces.into_iter()) {
                    true => {
                        self.stats.cut += 1;
                        made.segments
                    }
                    false => {
                        self.stats.whole += 1;
                        vec![whole]
                    }
                }
            }
        };
        self.keep_pieces(segments, &made.units, now, from);
    }

    fn keep_pieces(&mut self, segments: Vec<Piece>, units: &[Unit], now: u64, mut from: usize) {
        let (count, tables, all) = (segments.len(), self.stores.len(), self.positions());
        for (number, (segment, first, last)) in segments.into_iter().enumerate() {
            let behind = count - number;
            // The end of this pass, or of the next one if that is too early.
            let end = from - from % tables + tables;
            let end = if from + behind > end { end + tables } else { end };
            let at = if self.is_chain() { self.position_for(&segment, from, end - behind, all - behind) } else { 0 };
            let table = at % tables;
            let place = self.put(segment, table, now);
            if let (Some(samples), Some(place)) = (&mut self.samples, place) {
                samples.keep(table, place, &units[first..=last]);
            }
            from = at + 1;
        }
    }

    /// The position that a segment goes to: one at which it is; else the last at which those behind it still have room in this pass. If that table is full, the emptiest up to
    /// the one after which they have room at all; of a whole traversal the emptiest.
    fn position_for(&self, segment: &Segment, first: usize, last: usize, latest: usize) -> usize {
        let store = |at: &usize| &self.stores[at % self.stores.len()];
        if let Some(at) = (first..=last).find(|at| store(at).place_of(segment).is_some()) {
            return at;
        }
        let whole = segment.end.outcome().is_some() && segment.tag == 0;
        let emptiest = |last: usize| (first..=last).min_by_key(|at| store(at).len()).unwrap_or(last);
        if whole {
            emptiest(last)
        } else if store(&last).len() < self.config.entries {
            last
        } else {
            emptiest(latest)
        }
    }
}
