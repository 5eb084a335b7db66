//! [`SplitEstimator`]: estimates from samples how many cache entries each possible segment of a
//! path needs, and chooses the split that needs the fewest.
//!
//! The fields alone ([`crate::partition`]) show which tables' entries multiply in one segment, but
//! not by how much: combining sixteen tunnels with a thousand stations costs less than combining a
//! thousand stations with a thousand rules. So every eighth packet is a sample, whether it hits or
//! misses. A sample has, for each unit of its path (a table and the code up to the next one), a
//! hash of the match of a segment for this unit alone.
//!
//! From the latest samples of a path the estimator computes for each range of units the number of
//! distinct entries, by Chao's estimator: the distinct values seen, plus a term from the numbers of
//! values seen once and twice (*Nonparametric estimation of the number of classes in a population*,
//! Scandinavian Journal of Statistics 11, 1984). Equal samples count once, because consecutive
//! packets of one flow carry no information about other flows.

use crate::partition::{first_acceptable_split, partition};
use interp::block_hook::InstIndex;
use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher;

type HashState = foldhash::fast::RandomState;

/// One packet of this many is a sample.
const SAMPLING_INTERVAL: u32 = 8;
/// Number of latest samples of a path that count.
const MAX_SAMPLES_PER_PATH: usize = 512;
/// Number of samples before the first evaluation of a path. The period doubles after each one.
const FIRST_PERIOD: u32 = 64;
/// Maximum number of samples between two evaluations.
const MAX_PERIOD: u32 = 4_096;
/// Maximum number of units of a measured path.
const MAX_UNITS: usize = 48;
/// Maximum number of stored hashes, over all paths.
const MAX_HASHES: usize = 1 << 20;
/// Maximum of an estimate.
const MAX_ESTIMATE: u64 = 1 << 40;
/// Cost advantage of the split in use, in thousandths. It prevents needless changes, because the
/// cached segments are useless to a new split.
const HYSTERESIS: i64 = 50;

/// Unit of a packet's path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathUnit {
    /// Tag where the unit starts.
    pub tag: InstIndex,
    /// Hash of the match of a segment for this unit alone.
    pub id: u32,
}

/// Estimator of the entries that splits of each path need.
#[derive(Clone, Debug)]
pub struct SplitEstimator {
    /// Number of segments of a split, and the maximum if fewer segments multiply entries.
    segment_counts: (usize, usize),
    paths: HashMap<u64, SampledPath, HashState>,
    hasher: HashState,
    /// Number of stored hashes.
    hash_count: usize,
    /// Sampling interval, and packets until the next sample.
    interval: u32,
    until_sample: u32,
    /// Samples before the first evaluation of a path.
    first_period: u32,
    scratch: HashCounts,
}

/// Distinct samples of a path, and their evaluation.
#[derive(Clone, Debug)]
struct SampledPath {
    /// Hashes of the samples, one sample after the other.
    unit_hashes: Vec<u32>,
    /// Hashes of whole samples, to find duplicates.
    distinct_samples: HashSet<u64, HashState>,
    /// Index of the oldest sample, which is replaced next once there are [`MAX_SAMPLES_PER_PATH`].
    next: usize,
    /// Samples until the next evaluation, and the current period.
    until_evaluation: u32,
    period: u32,
    costs: Option<SplitCosts>,
}

/// Estimated entries of each range of units of a path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SplitCosts {
    units: usize,
    /// Entries by first and last unit.
    entries: Vec<u64>,
    /// Split of the whole path: first and last unit of each segment.
    chosen: Vec<(usize, usize)>,
}

impl SplitCosts {
    /// Returns the score of a segment for these units: the negative estimate of its entries, scaled
    /// by 1,000.
    pub fn score(&self, first: usize, last: usize) -> i64 {
        let used = self.chosen.contains(&(first, last));
        -(self.estimated_entries(first, last) as i64) * if used { 1_000 - HYSTERESIS } else { 1_000 }
    }

    /// Returns the estimated number of entries of a segment for these units.
    pub fn estimated_entries(&self, first: usize, last: usize) -> u64 {
        self.entries[first * self.units + last]
    }

    /// Returns whether a segment for these units needs more entries than two segments would.
    pub fn makes_more(&self, first: usize, last: usize) -> bool {
        let apart =
            (first..last).map(|mid| self.estimated_entries(first, mid) + self.estimated_entries(mid + 1, last)).min();
        apart.is_some_and(|apart| apart < self.estimated_entries(first, last))
    }
}

impl SplitEstimator {
    /// Creates an estimator for splits into `min_segments` segments, or up to `max_segments` where
    /// fewer multiply entries.
    pub fn new(min_segments: usize, max_segments: usize) -> SplitEstimator {
        SplitEstimator {
            segment_counts: (min_segments, max_segments),
            paths: HashMap::default(),
            hasher: HashState::default(),
            hash_count: 0,
            interval: SAMPLING_INTERVAL,
            until_sample: SAMPLING_INTERVAL,
            first_period: FIRST_PERIOD,
            scratch: HashCounts::default(),
        }
    }

    /// Returns whether the current packet is a sample.
    pub fn is_sample(&mut self) -> bool {
        self.until_sample -= 1;
        let due = self.until_sample == 0;
        if due {
            self.until_sample = self.interval;
        }
        due
    }

    /// Samples every packet and evaluates after few samples, for tests.
    pub fn sample_eagerly(&mut self) {
        (self.interval, self.until_sample, self.first_period) = (1, 1, 3);
    }

    fn path_hash(&self, units: &[PathUnit]) -> u64 {
        let mut path = units.len() as u64;
        for unit in units {
            path = (path ^ u64::from(unit.tag)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        }
        self.hasher.hash_one(path)
    }

    /// Returns the estimates of a path, if it has had enough samples.
    pub fn costs(&self, units: &[PathUnit]) -> Option<&SplitCosts> {
        self.paths.get(&self.path_hash(units))?.costs.as_ref().filter(|costs| costs.units == units.len())
    }

    /// Adds a sample: the units of a packet's path. A sample that the path already has is ignored.
    pub fn add_sample(&mut self, units: &[PathUnit]) {
        let key = self.path_hash(units);
        if units.len() < 2 || units.len() > MAX_UNITS {
            return;
        }
        let is_full = |path: &SampledPath| path.unit_hashes.len() >= MAX_SAMPLES_PER_PATH * units.len();
        if self.hash_count + units.len() > MAX_HASHES && !self.paths.get(&key).is_some_and(is_full) {
            // With more paths than fit, sampling restarts.
            self.paths.clear();
            self.hash_count = 0;
        }
        let SplitEstimator { paths, hash_count, scratch, segment_counts, first_period, .. } = self;
        let new_path = || SampledPath {
            unit_hashes: Vec::new(),
            distinct_samples: HashSet::default(),
            next: 0,
            until_evaluation: *first_period,
            period: *first_period,
            costs: None,
        };
        let path = paths.entry(key).or_insert_with(new_path);
        if !path.distinct_samples.insert(hash_sample(units.iter().map(|unit| unit.id))) {
            return;
        }
        if path.unit_hashes.len() < MAX_SAMPLES_PER_PATH * units.len() {
            *hash_count += units.len();
            path.unit_hashes.extend(units.iter().map(|unit| unit.id));
        } else {
            let offset = path.next * units.len();
            let sample = &mut path.unit_hashes[offset..offset + units.len()];
            path.distinct_samples.remove(&hash_sample(sample.iter().copied()));
            sample.iter_mut().zip(units).for_each(|(id, unit)| *id = unit.id);
            path.next = (path.next + 1) % MAX_SAMPLES_PER_PATH;
        }
        path.until_evaluation -= 1;
        if path.until_evaluation == 0 {
            path.period = (path.period * 2).min(MAX_PERIOD);
            path.until_evaluation = path.period;
            path.update_costs(units.len(), *segment_counts, scratch);
        }
    }

    /// Returns the approximate memory use in bytes.
    pub fn memory(&self) -> usize {
        let of = |path: &SampledPath| {
            size_of_val(&*path.unit_hashes)
                + 9 * path.distinct_samples.capacity()
                + path.costs.as_ref().map_or(0, |costs| size_of_val(&*costs.entries))
                + size_of::<SampledPath>()
        };
        self.paths.values().map(of).sum()
    }
}

/// Returns the hash of a sample.
fn hash_sample(ids: impl Iterator<Item = u32>) -> u64 {
    ids.fold(0, extend_hash)
}

/// Extends the hash of a range by the next unit.
fn extend_hash(hash: u64, id: u32) -> u64 {
    (hash ^ u64::from(id)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23)
}

impl SampledPath {
    /// Estimates the entries of each range of units from the samples of the path, and chooses the
    /// split that needs the fewest. `units`: number of units of the path. The split has
    /// `min_segments` segments, or up to `max_segments` where fewer multiply entries.
    fn update_costs(&mut self, units: usize, (min_segments, max_segments): (usize, usize), scratch: &mut HashCounts) {
        let samples = self.unit_hashes.len() / units;
        let mut counts = vec![SampleCounts::default(); units * units];
        let mut hashes = vec![0u64; samples];
        for first in 0..units {
            hashes.fill(0);
            for last in first..units {
                for (hash, sample) in hashes.iter_mut().zip(self.unit_hashes.chunks_exact(units)) {
                    *hash = extend_hash(*hash, sample[last]);
                }
                let range_counts = scratch.count(&hashes);
                counts[first * units + last] = range_counts;
                if range_counts.once == samples {
                    // Longer ranges differ in all samples as well.
                    counts[first * units + last..(first + 1) * units].fill(range_counts);
                    break;
                }
            }
        }
        let chosen = self.costs.take().map(|costs| costs.chosen).unwrap_or_default();
        let mut costs = SplitCosts { units, entries: estimate_entries(&counts, units, samples), chosen };
        let split = |limit| partition(units, limit, &|_| false, &|first, last| costs.score(first, last));
        let is_bad = |split: &Vec<(usize, usize)>| split.iter().any(|(first, last)| costs.makes_more(*first, *last));
        costs.chosen = first_acceptable_split(min_segments..=max_segments.min(units).max(min_segments), split, is_bad)
            .unwrap_or_default();
        self.costs = Some(costs);
    }
}

/// Returns the estimated number of entries of each range of units, at index `first * units + last`.
/// `counts`: the counts of each range, at the same index.
fn estimate_entries(counts: &[SampleCounts], units: usize, samples: usize) -> Vec<u64> {
    let mut entries: Vec<u64> = counts.iter().map(SampleCounts::estimate_distinct).collect();
    for length in 2..=units {
        for first in 0..=units - length {
            let last = first + length - 1;
            let range_counts = counts[first * units + last];
            // Almost all samples are distinct, so Chao's estimator is unreliable. Either one part
            // determines the other, or the entries are the product of both parts.
            if range_counts.once * 20 < samples * 19 {
                continue;
            }
            let entries_of_parts = |mid: usize| {
                let (front, back) = (first * units + mid, (mid + 1) * units + last);
                match (counts[front] == range_counts, counts[back] == range_counts) {
                    (true, _) => entries[front],
                    (_, true) => entries[back],
                    _ => entries[front].saturating_mul(entries[back]),
                }
            };
            let fewest = (first..last).map(entries_of_parts).min().unwrap_or(0);
            entries[first * units + last] = fewest.max(range_counts.estimate_distinct()).min(MAX_ESTIMATE);
        }
    }
    entries
}

/// Number of distinct values in a sample, and how many occur once and twice.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct SampleCounts {
    different: usize,
    once: usize,
    twice: usize,
}

impl SampleCounts {
    /// Returns the estimated number of distinct values: Chao's estimator in its bias-corrected
    /// form, which is defined also without values that occur twice.
    fn estimate_distinct(&self) -> u64 {
        (self.different + self.once * self.once.saturating_sub(1) / (2 * (self.twice + 1))) as u64
    }
}

/// Counts the occurrences of hashes.
#[derive(Clone, Debug, Default)]
struct HashCounts {
    /// Hash table at most half full: hash and count; count 0: free slot.
    places: Vec<(u64, u32)>,
}

impl HashCounts {
    /// Counts how many hashes are distinct, and how many of these occur once and twice.
    fn count(&mut self, hashes: &[u64]) -> SampleCounts {
        let capacity = (2 * hashes.len()).next_power_of_two();
        self.places.clear();
        self.places.resize(capacity, (0, 0));
        for hash in hashes {
            let hash = hash | 1;
            // The upper half of a hash selects its place.
            let mut place = (hash >> 32) as usize & (capacity - 1);
            while self.places[place].1 != 0 && self.places[place].0 != hash {
                place = (place + 1) & (capacity - 1);
            }
            self.places[place] = (hash, self.places[place].1 + 1);
        }
        let mut seen = SampleCounts::default();
        for (_, count) in self.places.iter().filter(|(_, count)| *count > 0) {
            seen.different += 1;
            seen.once += usize::from(*count == 1);
            seen.twice += usize::from(*count == 2);
        }
        seen
    }
}

#[cfg(test)]
mod tests {
    use super::{PathUnit, SplitEstimator};

    /// Samples paths of units that are drawn independently from the given numbers of values.
    fn costs(values: &[u64], pieces: usize, samples: usize) -> (SplitEstimator, Vec<PathUnit>) {
        let mut rng = fastrand::Rng::with_seed(3);
        let mut sharing = SplitEstimator::new(pieces, pieces);
        let mut units = Vec::new();
        for _ in 0..samples {
            let one = |(tag, values): (usize, &u64)| PathUnit { tag: tag as u32, id: rng.u64(..*values) as u32 };
            units = values.iter().enumerate().map(one).collect();
            sharing.add_sample(&units);
        }
        (sharing, units)
    }

    fn chosen(values: &[u64], pieces: usize) -> Vec<(usize, usize)> {
        let (sharing, units) = costs(values, pieces, 600);
        sharing.costs(&units).expect("there were enough samples").chosen.clone()
    }

    #[test]
    fn few_values_go_with_others_where_there_are_too_few_tables() {
        // The two small units share a segment.
        assert_eq!(chosen(&[4, 3, 1_000, 2_000], 3), [(0, 1), (2, 2), (3, 3)]);
        assert_eq!(chosen(&[1_000, 4, 3, 2_000], 3), [(0, 0), (1, 2), (3, 3)]);
        // One unit must join a neighbour: the smallest one does.
        assert_eq!(chosen(&[300, 2, 2_000], 2), [(0, 1), (2, 2)]);
    }

    #[test]
    fn many_values_stay_apart_though_no_sample_is_like_another() {
        assert_eq!(chosen(&[5_000, 5_000], 4), [(0, 0), (1, 1)]);
    }

    #[test]
    fn constants_need_no_table_of_their_own() {
        assert_eq!(chosen(&[1, 1, 80, 1], 4), [(0, 3)]);
    }

    #[test]
    fn units_that_say_the_same_stay_together() {
        let mut sharing = SplitEstimator::new(4, 4);
        let mut rng = fastrand::Rng::with_seed(4);
        let mut units = Vec::new();
        for _ in 0..600 {
            let (same, other) = (rng.u32(..400), rng.u32(..400));
            units = [same, same + 1, other]
                .iter()
                .enumerate()
                .map(|(tag, id)| PathUnit { tag: tag as u32, id: *id })
                .collect();
            sharing.add_sample(&units);
        }
        assert_eq!(sharing.costs(&units).map(|costs| costs.chosen.as_slice()), Some(&[(0, 1), (2, 2)][..]));
    }

    #[test]
    fn nothing_is_said_of_few_samples_and_of_other_ways() {
        let many = [1 << 30, 1 << 30];
        let (sharing, mut units) = costs(&many, 2, 63);
        assert_eq!(sharing.costs(&units), None);
        // Equal samples count once.
        let (sharing, few) = costs(&[4, 4], 2, 1_000);
        assert_eq!(sharing.costs(&few), None);
        let (sharing, _) = costs(&many, 2, 64);
        assert_eq!(sharing.costs(&units).map(|costs| costs.units), Some(2));
        units[1].tag = 9;
        assert_eq!(sharing.costs(&units), None);
    }

    #[test]
    fn estimates_are_near() {
        for values in [10, 300, 2_000] {
            let (sharing, units) = costs(&[values, 1 << 30], 1, 2_000);
            let found = -sharing.costs(&units).map(|costs| costs.score(0, 0)).expect("enough") / 1_000;
            assert!((values as i64 * 7 / 10..values as i64 * 14 / 10).contains(&found), "{values}: {found}");
        }
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut sharing = SplitEstimator::new(4, 4);
        for path in 0..4_000u32 {
            for sample in 0..30 {
                let units: Vec<PathUnit> =
                    (0..20).map(|unit| PathUnit { tag: path * 100 + unit, id: sample }).collect();
                sharing.add_sample(&units);
            }
        }
        assert!(sharing.hash_count <= super::MAX_HASHES, "{}", sharing.hash_count);
    }
}
