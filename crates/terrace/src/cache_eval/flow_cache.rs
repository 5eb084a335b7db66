//! Implementation of the evaluation's cache interface by the crate `flowcache`.

use super::cache::{Cache, CacheOccupancy, CacheSpec};
use super::chains::RuleChains;
use super::vswitch::Vswitch;
use flowcache::{SegmentCache, SegmentCacheConfig, SegmentCacheStats};
use interp::{Config, Outputs};

/// Builds a cache for a pipeline with its entries.
///
/// # Errors
/// If the cache refuses the program or an entry. The built-in files then contradict each other.
pub fn build_cache(vswitch: &Vswitch, chains: &RuleChains, shape: CacheSpec) -> Result<Box<dyn Cache>, String> {
    let kind = shape.kind.of(shape.tables);
    // The mask limit equals the entry limit, because the comparison is about entry capacity and not
    // about masks.
    let config = SegmentCacheConfig {
        kind,
        max_segments: shape.entries,
        max_masks: shape.entries,
        ..SegmentCacheConfig::default()
    };
    let cache = SegmentCache::new(vswitch.pipeline.clone(), Config::default(), config);
    let mut cache = cache.map_err(|error| error.to_string())?;
    cache.write(&chains.entries).map_err(|error| error.to_string())?;
    Ok(Box::new(cache))
}

impl Cache for SegmentCache {
    fn process(&mut self, bytes: &[u8], port: u32, now: u64, out: &mut Outputs) {
        self.process_into(bytes, port, now, out);
    }

    fn stats(&self) -> &SegmentCacheStats {
        SegmentCache::stats(self)
    }

    fn tables(&self) -> Vec<CacheOccupancy> {
        SegmentCache::table_usage(self)
            .map(|table| CacheOccupancy { entries: table.entries, masks: table.masks })
            .collect()
    }

    fn rule_space(&self) -> f64 {
        SegmentCache::rule_space(self)
    }

    fn memory(&self) -> usize {
        SegmentCache::memory(self)
    }
}
