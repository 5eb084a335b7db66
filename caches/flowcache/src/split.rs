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
    /// Builds the segment of each unit, up to the first unit that cannot be cached or that no
    /// segment can start at.
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

    /// Splits the traversal into at most `max_segments` segments with the highest total score.
    /// `score` returns that of a segment by its first and last unit. Returns `None` if no such
    /// split exists.
    fn split_into(
        &self,
        traversal: &RecordedTraversal<'_>,
        stepper: &BlockStepper<'_>,
        max_segments: usize,
        score: &dyn Fn(usize, usize) -> i64,
    ) -> Option<Vec<SegmentOfUnits>> {
        let units = self.segments.len();
        if units == 0 {
            return Some(Vec::new());
        }
        let mut must_begin = vec![false; units];
        // Building a segment reports the units that must start one, because of a live key. Each
        // such report restarts the partition.
        'again: for _ in 0..=units {
            let parts = partition(units, max_segments, &|unit| must_begin[unit], score)?;
            let mut segments = Vec::with_capacity(parts.len());
            for (first, last) in parts {
                let segment = match first == last {
                    true => Ok(self.segments[first].clone()),
                    false => traversal.build_segment(stepper, first, last),
                };
                match segment {
                    Ok(segment) => segments.push((segment, first, last)),
                    Err(SegmentError::SplitBefore(unit)) if unit > first && !must_begin[unit] => {
                        must_begin[unit] = true;
                        continue 'again;
                    }
                    Err(_) => return None,
                }
            }
            return Some(segments);
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
        let split = if self.is_chain() {
            let path = self.path_units(traversal, &units);
            let costs = self.sampler.as_ref().and_then(|samples| samples.costs_of_path(&path));
            self.split_from_position((traversal, stepper), &units, 0, costs.map(|costs| (costs, 0)))
        } else {
            let fields = scores_by_fields(&units.fields_by_unit(&self.field_of_slot));
            units.split_into(traversal, stepper, traversal.unit_count(), &|first, last| fields[first][last])
        };
        split.unwrap_or_default().into_iter().map(|(_, first, last)| (first, last)).collect()
    }

    fn segment_hash(&self, segment: &Segment) -> u64 {
        self.hasher.hash_one((segment.tag, &segment.mask, &segment.values))
    }

    /// Returns the path units: tag and hash of each unit's segment.
    fn path_units(&self, traversal: &RecordedTraversal<'_>, units: &UnitSegments) -> Vec<PathUnit> {
        let path_unit = |(unit, segment): (usize, &Segment)| PathUnit {
            tag: traversal.tag(unit),
            id: (self.segment_hash(segment) >> 32) as u32,
        };
        units.segments.iter().enumerate().map(path_unit).collect()
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
        let split = self.split_record(stepper, record, outcome, from);
        let min_positions = split.min_positions;
        self.store_split(split, stepper.now(), from);
        min_positions
    }

    /// Splits a recorded traversal into segments as the kind of cache demands. `from`: first
    /// position for its segments.
    fn split_record(
        &mut self,
        stepper: &BlockStepper<'_>,
        record: &ExecutionRecord,
        outcome: BlockExit,
        from: usize,
    ) -> SplitTraversal {
        // Taken out, because the traversal borrows the tables.
        let mut samples = self.sampler.take();
        let traversal = RecordedTraversal::new(self.traversal_context(stepper), record, outcome);
        let split = match self.config.kind {
            SegmentCacheKind::Exact | SegmentCacheKind::Megaflow => {
                let (segments, refused) = longest_segments(&traversal, stepper);
                SplitTraversal { segments, refused, ..SplitTraversal::default() }
            }
            SegmentCacheKind::SubTraversal { .. } | SegmentCacheKind::Adaptive { .. } => {
                self.split_for_chain(&traversal, stepper, from, samples.as_mut())
            }
        };
        let split = self.with_whole_segment(split, &traversal, stepper);
        self.sampler = samples;
        split
    }

    /// Splits a traversal, or its remainder after the segments that the packet matched, for a chain
    /// of tables. `from`: first position for its segments; `samples`: the sampler, if splits are
    /// measured.
    fn split_for_chain(
        &self,
        traversal: &RecordedTraversal<'_>,
        stepper: &BlockStepper<'_>,
        from: usize,
        samples: Option<&mut PathSampler>,
    ) -> SplitTraversal {
        let units = UnitSegments::new(traversal, stepper);
        let path = self.path_units(traversal, &units);
        let units_before = samples.as_ref().and_then(|samples| samples.units_seen());
        let costs = samples.zip(units_before.as_ref()).and_then(|(samples, units_before)| {
            let costs = samples.record_miss(units_before, &path)?;
            Some((costs, units_before.len()))
        });
        let split = self.split_from_position((traversal, stepper), &units, from, costs);
        let min_positions = split.is_none().then(|| {
            // The remaining positions do not suffice.
            let (remaining, total) = (self.positions().saturating_sub(from), self.positions());
            let suffices = |count: &usize| units.split_into(traversal, stepper, *count, &|_, _| 0).is_some();
            (remaining + 1..=total).find(suffices).unwrap_or(usize::MAX)
        });
        let segments = split.unwrap_or_default();
        let mut split_traversal =
            SplitTraversal { segments, min_positions, measured: costs.is_some(), ..SplitTraversal::default() };
        (split_traversal.units, split_traversal.refused) = (path, units.refused.into_iter().collect());
        split_traversal
    }

    /// Splits a traversal, or its remainder, into segments for the segment tables from position
    /// `from` on. A unit is the smallest part of a traversal that is not split: a table with the
    /// code after it. A packet goes through the segment tables in order, and may go through them a
    /// second time (the next pass); positions count on over the passes.
    ///
    /// Takes the tables that remain in this pass. If no split fits there, or if it would store more
    /// entries than the flows have parts, takes as few tables of the next pass as suffice. `costs`
    /// has the measured costs of the path, and the index of the first unit in it. Returns `None` if
    /// no split fits.
    fn split_from_position(
        &self,
        (traversal, stepper): (&RecordedTraversal<'_>, &BlockStepper<'_>),
        units: &UnitSegments,
        from: usize,
        costs: Option<(&SplitCosts, usize)>,
    ) -> Option<Vec<SegmentOfUnits>> {
        let fields = scores_by_fields(&units.fields_by_unit(&self.field_of_slot));
        // A cost outweighs all field scores, so these decide between splits of equal measured cost.
        let score = |first: usize, last: usize| {
            costs.map_or(0, |(costs, offset)| costs.score(offset + first, offset + last)) + fields[first][last]
        };
        let multiplies_entries = |segments: &Vec<SegmentOfUnits>| {
            let multiplies = |(_, first, last): &SegmentOfUnits| {
                costs.is_some_and(|(costs, offset)| costs.makes_more(offset + first, offset + last))
            };
            segments.iter().any(multiplies)
        };
        let left = self.positions().saturating_sub(from);
        let this_pass = (self.stores.len() - from % self.stores.len()).min(left);
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
        mut split: SplitTraversal,
        traversal: &RecordedTraversal<'_>,
        stepper: &BlockStepper<'_>,
    ) -> SplitTraversal {
        split.path = traversal.path_hash();
        let reaches_end = split.segments.last().is_some_and(|(last, ..)| last.end.outcome().is_some());
        if matches!(self.config.kind, SegmentCacheKind::Adaptive { .. }) && split.segments.len() > 1 && reaches_end {
            let last = traversal.unit_count() - 1;
            split.whole = traversal.build_segment(stepper, 0, last).ok().map(|segment| (segment, 0, last));
        }
        split
    }

    /// Stores the segments of a split at positions `from` and later, and counts the parts that are
    /// not cached. The adaptive cache stores the whole traversal instead, if its policy prefers
    /// that.
    fn store_split(&mut self, split: SplitTraversal, now: u64, from: usize) {
        for reason in &split.refused {
            *self.stats.uncacheable.entry(*reason).or_default() += 1;
        }
        self.stats.rejected += u64::from(split.min_positions.is_some());
        self.stats.split_by_samples += u64::from(split.measured);
        // The adaptive cache stores a traversal whole where splitting gains nothing.
        let segments = match split.whole {
            None => split.segments,
            Some(whole) => {
                let whole_hash = self.segment_hash(&whole.0);
                let segment_hashes: Vec<u64> =
                    split.segments.iter().map(|(segment, ..)| self.segment_hash(segment)).collect();
                match self.split_policy.prefers_split(split.path, whole_hash, segment_hashes.into_iter()) {
                    true => {
                        self.stats.split_traversals += 1;
                        split.segments
                    }
                    false => {
                        self.stats.whole_traversals += 1;
                        vec![whole]
                    }
                }
            }
        };
        self.store_segments(segments, &split.units, now, from);
    }

    /// Stores segments in order, each at a later position than the one before, and reports their
    /// units to the sampler.
    fn store_segments(&mut self, segments: Vec<SegmentOfUnits>, units: &[PathUnit], now: u64, mut from: usize) {
        let (count, tables, positions) = (segments.len(), self.stores.len(), self.positions());
        for (number, (segment, first, last)) in segments.into_iter().enumerate() {
            // This segment and those after it.
            let remaining = count - number;
            // End of this pass, or of the next one if the remaining segments need it.
            let end = from - from % tables + tables;
            let end = if from + remaining > end { end + tables } else { end };
            let position = if self.is_chain() {
                self.choose_position(&segment, from, end - remaining, positions - remaining)
            } else {
                0
            };
            let table = position % tables;
            let index = self.insert_segment(segment, table, now);
            if let (Some(samples), Some(index)) = (&mut self.sampler, index) {
                samples.set_segment_units(table, index, &units[first..=last]);
            }
            from = position + 1;
        }
    }

    /// Chooses the position of a segment: one where it already exists, else the last one that
    /// leaves enough tables in this pass for the segments after it. If that table is full, chooses
    /// the emptiest one up to `latest`. A whole traversal goes to the emptiest table.
    fn choose_position(&self, segment: &Segment, first: usize, last: usize, latest: usize) -> usize {
        let store_at = |position: &usize| &self.stores[position % self.stores.len()];
        if let Some(position) = (first..=last).find(|position| store_at(position).slot_of_segment(segment).is_some()) {
            return position;
        }
        let is_whole = segment.end.outcome().is_some() && segment.tag == 0;
        let emptiest = |last: usize| (first..=last).min_by_key(|position| store_at(position).len()).unwrap_or(last);
        if is_whole {
            emptiest(last)
        } else if store_at(&last).len() < self.config.max_segments {
            last
        } else {
            emptiest(latest)
        }
    }
}
