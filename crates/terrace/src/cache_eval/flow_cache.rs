//! The crate `flowcache` as the evaluation asks for it.

use super::cache::{Cache, CacheKind, CacheStats, Fill, Shape};
use super::chains::Chains;
use super::vswitch::Vswitch;
use flowcache::{CacheConfig, FlowCache, Kind};
use interp::{Config, Outputs};

/// A cache in front of a pipeline with its entries.
///
/// # Errors
/// If it refuses the program or an entry: a contradiction within the carried files.
pub fn make(vswitch: &Vswitch, chains: &Chains, shape: Shape) -> Result<Box<dyn Cache>, String> {
    let kind = match shape.kind {
        CacheKind::Exact => Kind::Exact,
        CacheKind::Megaflow => Kind::Megaflow,
        CacheKind::SubTraversal => Kind::SubTraversal { tables: shape.tables },
        CacheKind::Adaptive => Kind::Adaptive { tables: shape.tables },
    };
    // As many masks as there are entries: what is compared is room for entries, not for masks.
    let config = CacheConfig { kind, entries: shape.entries, masks: shape.entries, ..CacheConfig::default() };
    let cache = FlowCache::new(vswitch.pipeline.clone(), Config::default(), config);
    let mut cache = cache.map_err(|error| error.to_string())?;
    cache.write(&chains.entries).map_err(|error| error.to_string())?;
    Ok(Box::new(cache))
}

impl Cache for FlowCache {
    fn process(&mut self, bytes: &[u8], port: u32, now: u64, out: &mut Outputs) {
        self.process_into(bytes, port, now, out);
    }

    fn stats(&self) -> CacheStats {
        let stats = FlowCache::stats(self);
        CacheStats {
            lookups: stats.packets,
            hits: stats.hits,
            misses: stats.misses,
            inserted: stats.inserted,
            shared: stats.shared,
            evicted: stats.evicted,
            expired: stats.expired,
            rejected: stats.rejected,
            partition_ns: stats.partition_ns,
        }
    }

    fn tables(&self) -> Vec<Fill> {
        FlowCache::tables(self).map(|table| Fill { entries: table.entries, masks: table.masks }).collect()
    }

    fn rule_space(&self) -> f64 {
        FlowCache::rule_space(self)
    }

    fn memory(&self) -> usize {
        FlowCache::memory(self)
    }
}
