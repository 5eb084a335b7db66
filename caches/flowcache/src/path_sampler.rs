//! [`PathSampler`]: tracks the units that a packet in the cache passes, segment by segment, as
//! samples for [`crate::split_estimator`].

use crate::split_estimator::{PathUnit, SplitCosts, SplitEstimator};

/// Sampler of paths through a segment cache.
#[derive(Clone, Debug)]
pub struct PathSampler {
    estimator: SplitEstimator,
    /// Units of each segment, by table and index.
    segment_units: Vec<Vec<Box<[PathUnit]>>>,
    /// Segments that the packet matched, by table and index. `None`: the packet left a segment in
    /// the middle, so its units are unknown.
    hit_segments: Option<Vec<(usize, u32)>>,
    /// The packet is a sample.
    is_sample: bool,
}

impl PathSampler {
    /// Creates the sampler of a chain of `tables` that packets may pass `passes` times.
    pub fn new(tables: usize, passes: usize) -> PathSampler {
        PathSampler {
            estimator: SplitEstimator::new(tables, tables * passes),
            segment_units: vec![Vec::new(); tables],
            hit_segments: Some(Vec::new()),
            is_sample: false,
        }
    }

    /// Samples every packet and decides by few samples, for tests.
    pub fn sample_eagerly(&mut self) {
        self.estimator.sample_eagerly();
    }

    /// Starts a packet.
    #[inline]
    pub fn begin_packet(&mut self) {
        self.hit_segments.get_or_insert_default().clear();
        self.is_sample = self.estimator.is_sample();
    }

    /// Records that the packet completed a segment.
    #[inline]
    pub fn record_hit(&mut self, table: usize, place: u32) {
        if let Some(hit_segments) = &mut self.hit_segments {
            hit_segments.push((table, place));
        }
    }

    /// Records that the packet left a segment in the middle.
    pub fn mark_diverged(&mut self) {
        self.hit_segments = None;
    }

    /// Records that the cache handled the packet completely.
    #[inline]
    pub fn finish_hit(&mut self) {
        if self.is_sample
            && let Some(units) = self.units_seen()
        {
            self.estimator.add_sample(&units);
        }
    }

    /// Records the units of a stored segment.
    pub fn set_segment_units(&mut self, table: usize, place: u32, units: &[PathUnit]) {
        let segment_units = &mut self.segment_units[table];
        if segment_units.len() <= place as usize {
            segment_units.resize(place as usize + 1, Box::default());
        }
        segment_units[place as usize] = units.into();
    }

    /// Returns the units of a segment.
    pub fn units_of_segment(&self, table: usize, place: u32) -> &[PathUnit] {
        self.segment_units
            .get(table)
            .and_then(|segment_units| segment_units.get(place as usize))
            .map_or(&[], |units| units)
    }

    /// Returns the units that the packet has passed.
    pub fn units_seen(&self) -> Option<Vec<PathUnit>> {
        let hit_segments = self.hit_segments.as_ref()?;
        Some(hit_segments.iter().flat_map(|(table, place)| self.units_of_segment(*table, *place)).copied().collect())
    }

    /// Records a miss: after the units `units_before` the packet continued through `units`, up to
    /// the end of the cacheable part. Returns the costs of its path.
    pub fn record_miss(&mut self, units_before: &[PathUnit], units: &[PathUnit]) -> Option<&SplitCosts> {
        let path = [units_before, units].concat();
        if self.is_sample {
            self.estimator.add_sample(&path);
        }
        self.estimator.costs(&path)
    }

    /// Returns the costs of a path.
    pub fn costs_of_path(&self, units: &[PathUnit]) -> Option<&SplitCosts> {
        self.estimator.costs(units)
    }

    /// Returns the approximate memory use in bytes.
    pub fn memory(&self) -> usize {
        let of = |units: &[PathUnit]| size_of_val(units) + size_of::<Box<[PathUnit]>>();
        self.segment_units.iter().flatten().map(|units| of(units)).sum::<usize>() + self.estimator.memory()
    }

    /// Removes all segments.
    pub fn clear(&mut self) {
        self.segment_units.iter_mut().for_each(Vec::clear);
    }
}
