//! The crate `flowcache` as the evaluation asks for it.

use super::cache::{Cache, Fill, Shape};
use super::chains::Chains;
use super::vswitch::Vswitch;
use flowcache::{CacheConfig, FlowCache, Stats};
use interp::{Config, Outputs};

/// A cache in front of a pipeline with its entries.
///
/// # Errors
/// If it refuses the program or an entry: a contradiction within the carried files.
pub fn make(vswitch: &Vswitch, chains: &Chains, shape: Shape) -> Result<Box<dyn Cache>, String> {
    let kind = shape.kind.of(shape.tables);
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

    fn stats(&self) -> &Stats {
        FlowCache::stats(self)
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
