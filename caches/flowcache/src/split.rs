//! Splits a recorded traversal into segments and chooses a segment table for each.

use crate::cache::SegmentTables;
use crate::config::SegmentCacheKind;
use crate::partition::{FieldSet, first_acceptable_split, partition, scores_by_fields};
use crate::path_sampler::PathSampler;
use crate::record::ExecutionRecord;
use crate::segment::{RecordedTraversal, Segment, SegmentError, Uncacheable};
use crate::split_estimator::{PathUnit, SplitCosts};
use interp::block_hook::{BlockExit, BlockStepper};
use std::hash::BuildHasher;

/// Segments of a recorded traversal.
#[derive(Default)]
struct SplitTraversal {
    /// Segments of the split.
    segments: Vec<SegmentOfUnits>,
    /// The whole traversal as one segment, if the adaptive cache can choose it.
    whole: Option<SegmentOfUnits>,
    units: Vec<PathUnit>,
    path: u64,
    refused: Vec<Uncacheable>,
    /// Set if the positions are too few for the segments: the number of positions that suffices.
    min_positions: Option<usize>,
    /// The split was chosen by samples.
    measured: bool,
}

/// Segment with its first and last unit.
type SegmentOfUnits = (Segment, usize, usize);

/// Cacheable units of a traversal, each as a segment of its own, and why the next one is not
/// cacheable.
struct UnitSegments {
    segments: Vec<Segment>,
    refused: Option<Uncacheable>,
}

impl UnitSegments {
    fn new(traversal: &RecordedTraversal<'_>, stepper: &BlockStepper<'_>) -> UnitSegments {
        let mut units = UnitSegments { segments: Vec::new(), refused: None };
        for unit in 0..traversal.unit_count() {
            match traversal.build_segment(stepper, unit, unit) {
                Ok(segment) => units.segments.push(segment),
                Err(SegmentError::NotCacheable(reason)) => {
                    units.refused = Some(reason);
                    break;
                }
                Err(SegmentError::SplitBefore(_)) => break,
            }
        }
        units
    }

    /// Returns the header fields that each unit matches on.
    fn fields_by_unit(&self, fields: &[Option<u32>]) -> Vec<FieldSet> {
        let of = |segment: &Segment| -> FieldSet {
            segment.mask.iter().filter_map(|(slot, _)| fields[*slot as usize]).collect()
        };
        self.segments.iter().map(of).collect()
    }

    /// Splits the traversal into at most `room` segments with the highest total score. Returns
    /// `None` if that is impossible.
    fn split_into(
        &self,
        traversal: &RecordedTraversal<'_>,
        stepper: &BlockStepper<'_>,
        room: usize,
        worth: &dyn Fn(usize, usize) -> i64,
    ) -> Option<Vec<SegmentOfUnits>> {
        let units = self.segments.len();
        if units == 0 {
            return Some(Vec::new());
        }
        let mut must = vec![false; units];
        // Building a segment reports the units that must start one, because of a live key. Each
        // such report restarts the partition.
        'again: for _ in 0..=units {
            let parts = partition(units, room, &|unit| must[unit], worth)?;
            let mut pieces = Vec::with_capacity(parts.len());
            for (first, last) in parts {
                let segment = match first == last {
                    true => Ok(self.segments[first].clone()),
                    false => traversal.build_segment(stepper, first, last),
                };
                match segment {
                    Ok(segment) => pieces.push((segment, first, last)),
                    Err(SegmentError::SplitBefore(unit)) if unit > first && !must[unit] => {
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

/// Returns the fewest possible segments of a traversal, and the reasons for uncacheable units.
fn longest_segments(
    traversal: &RecordedTraversal<'_>,
    stepper: &BlockStepper<'_>,
) -> (Vec<SegmentOfUnits>, Vec<Uncacheable>) {
    let units = traversal.unit_count();
    let (mut segments, mut refused) = (Vec::new(), Vec::new());
    let (mut first, mut last) = (0, units - 1);
    while first < units {
        match traversal.build_segment(stepper, first, last) {
            Ok(segment) => {
                segments.push((segment, first, last));
                (first, last) = (last + 1, units - 1);
            }
            Err(SegmentError::SplitBefore(unit)) if unit > first => last = unit - 1,
            // The units before the failing table are cacheable.
            Err(_) if last > first => last -= 1,
            Err(SegmentError::NotCacheable(reason)) => {
                refused.push(reason);
                break;
            }
            Err(SegmentError::SplitBefore(_)) => break,
        }
    }
    (segments, refused)
}

impl SegmentTables {
    /// Returns the first and last unit of each segment that an empty cache would split a traversal
    /// into. A cache of whole traversals reports the split by fields, without a limit of segments.
    pub(crate) fn segment_ranges(
        &self,
        traversal: &RecordedTraversal<'_>,
        stepper: &BlockStepper<'_>,
    ) -> Vec<(usize, usize)> {
        let units = UnitSegments::new(traversal, stepper);
        let made = if self.is_chain() {
            let ids = self.path_units(traversal, &units);
            let costs = self.sampler.as_ref().and_then(|samples| samples.costs_of_path(&ids));
            self.split_from_position((traversal, stepper), &units, 0, costs.map(|costs| (costs, 0)))
        } else {
            let fields = scores_by_fields(&units.fields_by_unit(&self.field_of_slot));
            units.split_into(traversal, stepper, traversal.unit_count(), &|first, last| fields[first][last])
        };
        made.unwrap_or_default().into_iter().map(|(_, first, last)| (first, last)).collect()
    }

    fn segment_hash(&self, segment: &Segment) -> u64 {
        self.hasher.hash_one((segment.tag, &segment.mask, &segment.values))
    }

    /// Returns the path units: tag and hash of each unit's segment.
    fn path_units(&self, traversal: &RecordedTraversal<'_>, units: &UnitSegments) -> Vec<PathUnit> {
        let one = |(unit, segment): (usize, &Segment)| PathUnit {
            tag: traversal.tag(unit),
            id: (self.segment_hash(segment) >> 32) as u32,
        };
        units.segments.iter().enumerate().map(one).collect()
    }

    /// Builds the segments of a record and stores them at positions `from` and later. If there are
    /// too few positions, returns the number that would suffice.
    pub(crate) fn store_record(
        &mut self,
        stepper: &BlockStepper<'_>,
        record: &ExecutionRecord,
        outcome: BlockExit,
        from: usize,
    ) -> Option<usize> {
        let made = self.split_record(stepper, record, outcome, from);
        let min_positions = made.min_positions;
        self.store_split(made, stepper.now(), from);
        min_positions
    }

    fn split_record(
        &mut self,
        stepper: &BlockStepper<'_>,
        record: &ExecutionRecord,
        outcome: BlockExit,
        from: usize,
    ) -> SplitTraversal {
        let mut samples = self.sampler.take();
        let traversal = RecordedTraversal::new(self.traversal_context(stepper), record, outcome);
        let made = match self.config.kind {
            SegmentCacheKind::Exact | SegmentCacheKind::Megaflow => {
                let (segments, refused) = longest_segments(&traversal, stepper);
                SplitTraversal { segments, refused, ..SplitTraversal::default() }
            }
            SegmentCacheKind::SubTraversal { .. } | SegmentCacheKind::Adaptive { .. } => {
                self.split_for_chain(&traversal, stepper, from, samples.as_mut())
            }
        };
        let made = self.with_whole_segment(made, &traversal, stepper);
        self.sampler = samples;
        made
    }

    fn split_for_chain(
        &self,
        traversal: &RecordedTraversal<'_>,
        stepper: &BlockStepper<'_>,
        at: usize,
        samples: Option<&mut PathSampler>,
    ) -> SplitTraversal {
        let units = UnitSegments::new(traversal, stepper);
        let ids = self.path_units(traversal, &units);
        let before = samples.as_ref().and_then(|samples| samples.units_seen());
        let costs = samples.zip(before.as_ref()).and_then(|(samples, before)| {
            let costs = samples.record_miss(before, &ids)?;
            Some((costs, before.len()))
        });
        let pieces = self.split_from_position((traversal, stepper), &units, at, costs);
        let min_positions = pieces.is_none().then(|| {
            // The remaining positions do not suffice.
            let (left, all) = (self.positions().saturating_sub(at), self.positions());
            let does = |room: &usize| units.split_into(traversal, stepper, *room, &|_, _| 0).is_some();
            (left + 1..=all).find(does).unwrap_or(usize::MAX)
        });
        let segments = pieces.unwrap_or_default();
        let mut made =
            SplitTraversal { segments, min_positions, measured: costs.is_some(), ..SplitTraversal::default() };
        (made.units, made.refused) = (ids, units.refused.into_iter().collect());
        made
    }

    /// Splits a traversal, or its remainder, into segments for the segment tables from position `at`
    /// on. A unit is the smallest part of a traversal that is not split: a table with the code after
    /// it. A packet goes through the segment tables in order, and may go through them a second time
    /// (the next pass); positions count on over the passes.
    ///
    /// Takes the tables that remain in this pass. If no split fits there, or if it would store more
    /// entries than the flows have parts, takes as few tables of the next pass as suffice. `costs` has
    /// the measured costs of the path, and the index of the first unit in it. Returns `None` if no
    /// split fits.
    fn split_from_position(
        &self,
        (traversal, stepper): (&RecordedTraversal<'_>, &BlockStepper<'_>),
        units: &UnitSegments,
        at: usize,
        costs: Option<(&SplitCosts, usize)>,
    ) -> Option<Vec<SegmentOfUnits>> {
        let fields = scores_by_fields(&units.fields_by_unit(&self.field_of_slot));
        // A cost outweighs all field scores, so these decide between splits of equal measured cost.
        let score = |first: usize, last: usize| {
            costs.map_or(0, |(costs, from)| costs.score(from + first, from + last)) + fields[first][last]
        };
        let multiplies_entries = |segments: &Vec<SegmentOfUnits>| {
            let multiplies = |(_, first, last): &SegmentOfUnits| {
                costs.is_some_and(|(c, from)| c.makes_more(from + first, from + last))
            };
            segments.iter().any(multiplies)
        };
        let left = self.positions().saturating_sub(at);
        let this_pass = (self.stores.len() - at % self.stores.len()).min(left);
        let table_counts = this_pass..=left.min(units.segments.len()).max(this_pass);
        first_acceptable_split(
            table_counts,
            |tables| units.split_into(traversal, stepper, tables, &score),
            multiplies_entries,
        )
    }

    /// Adds the whole traversal as one segment, for the adaptive cache to choose.
    fn with_whole_segment(
        &self,
        mut made: SplitTraversal,
        traversal: &RecordedTraversal<'_>,
        stepper: &BlockStepper<'_>,
    ) -> SplitTraversal {
        made.path = traversal.path_hash();
        let ends = made.segments.last().is_some_and(|(last, ..)| last.end.outcome().is_some());
        if matches!(self.config.kind, SegmentCacheKind::Adaptive { .. }) && made.segments.len() > 1 && ends {
            let last = traversal.unit_count() - 1;
            made.whole = traversal.build_segment(stepper, 0, last).ok().map(|segment| (segment, 0, last));
        }
        made
    }

    fn store_split(&mut self, made: SplitTraversal, now: u64, from: usize) {
        for reason in &made.refused {
            *self.stats.uncacheable.entry(*reason).or_default() += 1;
        }
        self.stats.rejected += u64::from(made.min_positions.is_some());
        self.stats.split_by_samples += u64::from(made.measured);
        // The adaptive cache stores a traversal whole where splitting gains nothing.
        let segments = match made.whole {
            None => made.segments,
            Some(whole) => {
                let id_of_whole = self.segment_hash(&whole.0);
                let pieces: Vec<u64> = made.segments.iter().map(|(piece, ..)| self.segment_hash(piece)).collect();
                match self.split_policy.prefers_split(made.path, id_of_whole, pieces.into_iter()) {
                    true => {
                        self.stats.split_traversals += 1;
                        made.segments
                    }
                    false => {
                        self.stats.whole_traversals += 1;
                        vec![whole]
                    }
                }
            }
        };
        self.store_segments(segments, &made.units, now, from);
    }

    fn store_segments(&mut self, segments: Vec<SegmentOfUnits>, units: &[PathUnit], now: u64, mut from: usize) {
        let (count, tables, all) = (segments.len(), self.stores.len(), self.positions());
        for (number, (segment, first, last)) in segments.into_iter().enumerate() {
            let behind = count - number;
            // End of this pass, or of the next one if the remaining segments need it.
            let end = from - from % tables + tables;
            let end = if from + behind > end { end + tables } else { end };
            let at = if self.is_chain() { self.choose_position(&segment, from, end - behind, all - behind) } else { 0 };
            let table = at % tables;
            let place = self.insert_segment(segment, table, now);
            if let (Some(samples), Some(place)) = (&mut self.sampler, place) {
                samples.set_segment_units(table, place, &units[first..=last]);
            }
            from = at + 1;
        }
    }

    /// Chooses the position of a segment: one where it already exists, else the last one that
    /// leaves enough tables in this pass for the segments after it. If that table is full, chooses
    /// the emptiest one up to `latest`. A whole traversal goes to the emptiest table.
    fn choose_position(&self, segment: &Segment, first: usize, last: usize, latest: usize) -> usize {
        let store = |at: &usize| &self.stores[at % self.stores.len()];
        if let Some(at) = (first..=last).find(|at| store(at).slot_of_segment(segment).is_some()) {
            return at;
        }
        let whole = segment.end.outcome().is_some() && segment.tag == 0;
        let emptiest = |last: usize| (first..=last).min_by_key(|at| store(at).len()).unwrap_or(last);
        if whole {
            emptiest(last)
        } else if store(&last).len() < self.config.max_segments {
            last
        } else {
            emptiest(latest)
        }
    }
}
