//! What is kept of a traversal that the slow path has recorded: as one segment, or cut into several, and in which tables.

use crate::cache::Caches;
use crate::config::Kind;
use crate::partition::{Fields, by_fields, partition};
use crate::recipe::wholes;
use crate::record::Record;
use crate::samples::Samples;
use crate::segment::{Refused, Segment, Traversal, Uncacheable};
use crate::sharing::{Costs, Unit};
use crate::store::Store;
use interp::walk::{Outcome, Walker};
use std::hash::BuildHasher;
use std::time::Instant;

/// What a record gives to be kept.
#[derive(Default)]
struct Made {
    /// Segments, each with its first and last unit.
    segments: Vec<Piece>,
    /// The same, cut in other ways.
    others: Vec<Vec<Piece>>,
    /// The whole traversal as one segment, if there is a choice.
    whole: Option<Piece>,
    units: Vec<Unit>,
    way: u64,
    refused: Vec<Uncacheable>,
    /// There are fewer tables than segments.
    no_room: bool,
    /// The cut goes by what was measured.
    measured: bool,
    /// There may be a better cut of the whole way, of which this is the end.
    anew: bool,
}

/// A segment, its first and its last unit.
type Piece = (Segment, usize, usize);

/// The units of a traversal that can be kept, each as a segment of its own, and why the next one can't.
pub(crate) struct Units {
    segments: Vec<Segment>,
    refused: Option<Uncacheable>,
}

impl Units {
    pub(crate) fn new(traversal: &Traversal<'_>, walker: &Walker<'_>) -> Units {
        let mut units = Units { segments: Vec::new(), refused: None };
        for unit in 0..traversal.units() {
            match traversal.segment(Some(walker), unit, unit) {
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
        let of =
            |segment: &Segment| -> Fields { segment.asks().filter_map(|(slot, ..)| fields[slot as usize]).collect() };
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
                    false => traversal.segment(Some(walker), first, last),
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

/// Other cuts are kept while less than so many per cent of the tables' room are in use, and ways cut anew from their start while it is less than so many: each keeps more entries
/// than are needed, and a full table would lose others for them.
const FOR_OTHERS: usize = 75;
const TO_CUT_ANEW: usize = 60;
/// The most other cuts of a traversal that are kept.
const OTHER_CUTS: usize = 8;
/// Another cut may need so many times the entries that the best needs.
const OTHERWISE: i64 = 8;

impl Units {
    /// Where there are fewer tables than the traversal has parts, some are in one piece that would better be in two, and a packet that has two such parts together which
    /// have not been together before misses. Cut at another place it may hit. The pieces of such cuts, none of which has a piece that another one would better not have.
    fn cut_otherwise(
        &self,
        (traversal, walker, room): (&Traversal<'_>, &Walker<'_>, usize),
        best: &[Piece],
        worth: &dyn Fn(usize, usize) -> i64,
        (costs, from): (&Costs, usize),
    ) -> Vec<Vec<Piece>> {
        let worst = |pieces: &[Piece]| {
            let all = pieces.iter().map(|(_, first, last)| (*first, *last));
            let bad = all.filter(|(first, last)| costs.makes_more(from + first, from + last));
            bad.max_by_key(|(first, last)| costs.entries(from + first, from + last))
        };
        let total = |pieces: &[Piece]| pieces.iter().map(|(_, first, last)| worth(*first, *last)).sum::<i64>();
        let least = total(best).saturating_mul(OTHERWISE);
        let (mut not, mut cuts) = (Vec::new(), Vec::<Vec<Piece>>::new());
        while cuts.len() < OTHER_CUTS {
            not.extend(worst(cuts.last().map_or(best, Vec::as_slice)));
            if not.len() == cuts.len() {
                break;
            }
            let is_not = |from: usize, to: usize| not.iter().any(|(first, last)| from <= *first && *last <= to);
            let without = |from: usize, to: usize| if is_not(from, to) { i64::MIN / 1_024 } else { worth(from, to) };
            let Some(cut) = self.cut(traversal, walker, room, &without) else { break };
            if total(&cut) < least || cut.iter().any(|(_, first, last)| is_not(*first, *last)) {
                break;
            }
            cuts.push(cut);
        }
        cuts
    }
}

impl Caches {
    /// Whether less than so many per cent of all tables' room are in use.
    fn has_room(&self, percent: usize) -> bool {
        let kept: usize = self.stores.iter().map(Store::len).sum();
        kept * 100 < self.config.entries * self.stores.len() * percent
    }

    /// The pieces that a chain of so many tables has room for, if it knows nothing but the fields: first and last unit of each.
    pub(crate) fn pieces(&self, traversal: &Traversal<'_>, walker: &Walker<'_>, room: usize) -> Vec<(usize, usize)> {
        let units = Units::new(traversal, walker);
        let worth = by_fields(&units.fields(&self.fields));
        let made = units.cut(traversal, walker, room, &|first, last| worth[first][last]).unwrap_or_default();
        made.into_iter().map(|(_, first, last)| (first, last)).collect()
    }

    fn id(&self, segment: &Segment) -> u64 {
        self.hasher.hash_one((segment.way.tag, segment.way.asks.bits(), segment.values()))
    }

    /// What tells units from others.
    pub(crate) fn ids(&self, traversal: &Traversal<'_>, units: &Units) -> Vec<Unit> {
        let one =
            |(unit, segment): (usize, &Segment)| Unit { tag: traversal.tag(unit), id: (self.id(segment) >> 32) as u32 };
        units.segments.iter().enumerate().map(one).collect()
    }

    /// Makes segments of a record and keeps them, in the tables from `table` on. Of a packet that had gone on from where the cache had led it, and whose way might need fewer
    /// entries if it were cut from its start, those of the whole way are kept instead; but if these are there already, the packet will be led here again.
    pub(crate) fn keep(&mut self, walker: &mut Walker<'_>, record: &mut Record, outcome: Outcome, table: usize) {
        let made = self.make(walker, record, outcome, table);
        let before = self.stats.inserted;
        if made.anew {
            self.keep_from_the_start(walker, record);
        }
        if !made.anew || self.stats.inserted == before {
            self.keep_made(made, walker.now(), table);
        }
    }

    fn make(&mut self, walker: &Walker<'_>, record: &Record, outcome: Outcome, table: usize) -> Made {
        let mut samples = self.samples.take();
        let traversal = Traversal::new(self.ground(walker), record, outcome);
        let made = match self.config.kind {
            Kind::Exact | Kind::Megaflow => {
                let wholes = wholes(&traversal, |first, last| traversal.segment(Some(walker), first, last));
                let segments = wholes.segments.into_iter().map(|(first, segment)| (segment, first, first));
                Made { segments: segments.collect(), refused: wholes.refused, ..Made::default() }
            }
            Kind::SubTraversal { .. } | Kind::Adaptive { .. } => {
                self.make_pieces(&traversal, walker, table, samples.as_mut())
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
        table: usize,
        samples: Option<&mut Samples>,
    ) -> Made {
        let (units, room) = (Units::new(traversal, walker), self.stores.len() - table);
        let ids = self.ids(traversal, &units);
        let before = samples.as_ref().and_then(|samples| samples.so_far());
        let costs = samples.zip(before.as_ref()).and_then(|(samples, before)| samples.missed(before, &ids));
        let fields = by_fields(&units.fields(&self.fields));
        let from = before.as_ref().map_or(0, Vec::len);
        // Where what was measured makes no difference, the fields decide.
        let worth = |first: usize, last: usize| {
            costs.map_or(0, |costs| costs.worth(from + first, from + last)) + fields[first][last]
        };
        let pieces = units.cut(traversal, walker, room, &worth);
        let (no_room, segments) = (pieces.is_none(), pieces.unwrap_or_default());
        let mut made = Made { segments, no_room, measured: costs.is_some(), ..Made::default() };
        if let Some(costs) = costs {
            let bad = made.segments.iter().any(|(_, first, last)| costs.makes_more(from + first, from + last));
            if bad && self.has_room(FOR_OTHERS) {
                made.others = units.cut_otherwise((traversal, walker, room), &made.segments, &worth, (costs, from));
            }
            made.anew = bad && table > 0 && self.has_room(TO_CUT_ANEW);
        }
        (made.units, made.refused) = (ids, units.refused.into_iter().collect());
        made
    }

    /// What a packet did from its start, of which there is no record as it hit at first, is walked once more, without effect, and kept.
    fn keep_from_the_start(&mut self, walker: &mut Walker<'_>, record: &mut Record) {
        let Some((came, were_valid)) = self.samples.as_mut().map(Samples::begin_again) else { return };
        walker.imagine(
            |slots, valid| {
                // There may be room behind the program's slots, which is nobody's.
                slots.copy_from_slice(&came[..slots.len()]);
                valid.copy_from_slice(&were_valid);
            },
            |walker| {
                let outcome = record.run(&self.known, walker, 0);
                let made = self.make(walker, record, outcome, 0);
                self.keep_made(made, walker.now(), 0);
            },
        );
    }

    /// A packet has hit. What it has in common with others is noted if it is a sample. If its way can be cut in several ways, not all of its pieces may be there: one packet of
    /// a few is learnt from, of fewer and fewer as long as nothing is new.
    pub(crate) fn learn(&mut self, walker: &mut Walker<'_>) {
        let Some(samples) = &mut self.samples else { return };
        samples.hit();
        if !samples.learns() {
            return;
        }
        let (begun, before) = (Instant::now(), self.stats.inserted);
        if self.has_room(FOR_OTHERS) {
            self.stats.learnt += 1;
            let mut record = std::mem::take(&mut self.record);
            self.keep_from_the_start(walker, &mut record);
            self.record = record;
        }
        let new = self.stats.inserted > before;
        self.samples.iter_mut().for_each(|samples| samples.learnt(new));
        self.slow_ns += begun.elapsed().as_nanos() as u64;
    }

    /// The adaptive cache has the choice to keep all of it as one.
    fn with_whole(&self, mut made: Made, traversal: &Traversal<'_>, walker: &Walker<'_>) -> Made {
        made.way = traversal.way();
        let ends = made.segments.last().is_some_and(|(last, ..)| last.way.end.outcome().is_some());
        if matches!(self.config.kind, Kind::Adaptive { .. }) && made.segments.len() > 1 && ends {
            let last = traversal.units() - 1;
            made.whole = traversal.segment(Some(walker), 0, last).ok().map(|segment| (segment, 0, last));
        }
        made
    }

    fn keep_made(&mut self, made: Made, now: u64, table: usize) {
        for reason in &made.refused {
            *self.stats.uncacheable.entry(*reason).or_default() += 1;
        }
        self.stats.rejected += u64::from(made.no_room);
        self.stats.measured += u64::from(made.measured);
        self.stats.otherwise += made.others.len() as u64;
        // The adaptive cache keeps a traversal whole where cutting it gains nothing.
        let mut others = made.others;
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
                        others.clear();
                        vec![whole]
                    }
                }
            }
        };
        self.keep_pieces(segments, &made.units, now, table);
        others.into_iter().for_each(|pieces| self.keep_pieces(pieces, &made.units, now, table));
    }

    fn keep_pieces(&mut self, segments: Vec<Piece>, units: &[Unit], now: u64, table: usize) {
        let (count, chain) = (segments.len(), self.is_chain());
        let mut from = table;
        for (number, (segment, first, last)) in segments.into_iter().enumerate() {
            let at = if chain { self.table_for(&segment, from, self.stores.len() - (count - number)) } else { 0 };
            let place = self.put(segment, at, now, None);
            if let (Some(samples), Some(place)) = (&mut self.samples, place) {
                samples.keep(at, place, &units[first..=last]);
            }
            from = at + 1;
        }
    }

    /// The table that a segment goes to: one that has it; else the last in which those behind it still have room, or of a whole traversal the emptiest.
    fn table_for(&self, segment: &Segment, first: usize, last: usize) -> usize {
        let range = first..=last;
        if let Some(at) = range.clone().find(|at| self.stores[*at].place_of(segment).is_some()) {
            return at;
        }
        let ends = segment.way.end.outcome().is_some();
        if ends && segment.way.tag == 0 {
            return range.min_by_key(|at| self.stores[*at].len()).unwrap_or(last);
        }
        last
    }
}
