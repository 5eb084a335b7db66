//! Explains which parts of a packet's path a flow cache stores, as text and as JSON.

use flowcache::explain::{ExplainedKey, ExplainedUnit};
use flowcache::{SegmentCache, SegmentCacheConfig, TraversalExplanation};
use interp::Config;
use node::explain::CacheInput;
use node::explain::offload::{MAX_ENTRIES, OffloadError, OffloadReport};
use serde_json::{Value, json};

/// Returns the explanation as JSON.
pub fn document(explanation: &TraversalExplanation) -> Value {
    let key = |key: &ExplainedKey| json!({ "name": key.name, "value": key.value, "mask": key.mask, "bits": key.bits.0, "width": key.bits.1 });
    let unit = |unit: &ExplainedUnit| {
        json!({
            "table": unit.table,
            "keys": unit.keys.iter().map(key).collect::<Vec<_>>(),
            "entry": unit.entry,
            "live": unit.live_calls,
            "refused": unit.uncacheable.map(|reason| reason.name()),
        })
    };
    json!({
        "refused": explanation.uncacheable_reason().map(|reason| reason.name()),
        "whole": explanation.whole_match_bits.is_some(),
        "pieces": explanation.segments,
        "stretches": explanation.units.iter().map(unit).collect::<Vec<_>>(),
    })
}

/// Implements [`node::wings::CacheWing::explain`].
pub(crate) fn explain(input: &CacheInput<'_>, settings: &Config, now: u64) -> Result<OffloadReport, OffloadError> {
    let CacheInput { part, bytes, port } = input;
    let entries = part.pipeline.tables.keys().map(|table| part.state.entries(table).count()).sum::<usize>();
    if entries > MAX_ENTRIES {
        return Err(OffloadError::TooMuch(entries));
    }
    let cache = SegmentCacheConfig::default();
    let mut cache = SegmentCache::new(part.pipeline.clone(), settings.clone(), cache).map_err(|_| OffloadError::Bug)?;
    for batch in node::state_to_batches(&part.state).map_err(|_| OffloadError::Bug)? {
        // Skips const entries of the program, which the cache has already.
        batch.apply_accepted(|batch| cache.write(batch));
    }
    let (_, explanation) = cache.explain(bytes, *port, now);
    Ok(OffloadReport { document: document(&explanation), text: explanation.to_string() })
}
