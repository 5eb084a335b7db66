//! Flow cache as a subject of the differential harness, optionally with an injected fault.

use entries::WriteBatch;
use flowcache::{SegmentCache, SegmentCacheConfig, SegmentCacheKind, SegmentCacheStats};
use packet::{Batch, BatchOutput};
use std::sync::Mutex;
use testkit::differ::case::PacketIn;
use testkit::differ::subject::{BatchResult, EngineUnderTest, IdleReport, idle_entries, through_engine};
use testkit::differ::subjects::OwnedFactory;

/// Injected fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sabotage {
    /// No fault.
    None,
    /// Writes do not reach the cache, so the tables change without its knowledge.
    Stale,
}

/// Statistics summed over all caches of a run.
pub static TOTALS: Mutex<Option<SegmentCacheStats>> = Mutex::new(None);

/// Returns the configuration for a seed. Seeds cycle through the kinds; capacities are small, so
/// that segments are evicted.
pub fn config(seed: u64) -> SegmentCacheConfig {
    let mut rng = fastrand::Rng::with_seed(seed);
    let tables = rng.usize(1..6);
    let kind = match seed % 4 {
        0 => SegmentCacheKind::Exact,
        1 => SegmentCacheKind::Megaflow,
        2 => SegmentCacheKind::SubTraversal { tables },
        _ => SegmentCacheKind::Adaptive { tables },
    };
    let entries = [2, 8, 64, 4_096][rng.usize(0..4)];
    let masks = [1, 4, 1_024][rng.usize(0..3)];
    SegmentCacheConfig {
        kind,
        max_segments: entries,
        max_masks: masks,
        idle_ns: rng.bool().then_some(1_000_000),
        slow_path: None,
    }
}

struct Cached {
    cache: SegmentCache,
    batch: Batch,
    out: BatchOutput,
    sabotage: Sabotage,
}

/// Returns a factory of caches configured by their seed.
pub fn factory(seed: u64, sabotage: Sabotage) -> OwnedFactory {
    Box::new(move |build| {
        let cache = SegmentCache::new(build.pipeline.clone(), build.setup.clone(), config(seed));
        let mut cache = cache.map_err(|error| error.to_string())?;
        // Measure early, because most programs get few packets.
        if !seed.is_multiple_of(5) {
            cache.sample_eagerly();
        }
        Ok(Box::new(Cached { cache, batch: Batch::new(), out: BatchOutput::new(), sabotage }))
    })
}

impl Drop for Cached {
    fn drop(&mut self) {
        let mut totals = TOTALS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        add(totals.get_or_insert_default(), self.cache.stats());
    }
}

fn add(totals: &mut SegmentCacheStats, more: &SegmentCacheStats) {
    totals.packets += more.packets;
    totals.hits += more.hits;
    totals.misses += more.misses;
    totals.partial += more.partial;
    totals.diverged += more.diverged;
    totals.inserted += more.inserted;
    totals.shared += more.shared;
    totals.evicted += more.evicted;
    totals.expired += more.expired;
    totals.stale += more.stale;
    totals.rejected += more.rejected;
    totals.split_traversals += more.split_traversals;
    totals.whole_traversals += more.whole_traversals;
    totals.split_by_samples += more.split_by_samples;
    totals.second_passes += more.second_passes;
    for (reason, count) in &more.uncacheable {
        *totals.uncacheable.entry(*reason).or_default() += count;
    }
}

impl EngineUnderTest for Cached {
    fn name(&self) -> String {
        "flowcache".to_owned()
    }
    fn write(&mut self, batch: &WriteBatch) -> Result<(), String> {
        match self.sabotage {
            Sabotage::None => self.cache.write(batch),
            Sabotage::Stale => self.cache.interp_mut().write(batch),
        }
        .map_err(|error| error.to_string())
    }
    fn process(&mut self, packets: &[PacketIn]) -> BatchResult {
        through_engine(&mut self.cache, &mut self.batch, &mut self.out, packets, None)
    }
    fn tick(&mut self, now: u64) -> Vec<IdleReport> {
        let idle = self.cache.advance_time(now);
        assert_eq!(self.cache.check_index(), Ok(()), "what finds stale segments");
        idle_entries(self.cache.interp().pipeline(), &idle)
    }
    testkit::interp_accessors!([cache.interp()], [cache.interp_mut()]);
}
