//! What of a packet's path a flow cache keeps: for people, and as a document.

use flowcache::explain::{Key, Stretch};
use flowcache::{CacheConfig, Explanation, FlowCache};
use interp::Config;
use node::explain::CacheInput;
use node::explain::offloaded::{CannotOffload, MAX_ENTRIES, Offloaded};
use serde_json::{Value, json};

/// What is said of a packet's way, as a document.
pub fn document(told: &Explanation) -> Value {
    let key = |key: &Key| json!({ "name": key.name, "value": key.value, "mask": key.mask, "bits": key.bits.0, "width": key.bits.1 });
    let stretch = |stretch: &Stretch| {
        json!({
            "table": stretch.table,
            "keys": stretch.keys.iter().map(key).collect::<Vec<_>>(),
            "entry": stretch.entry,
            "live": stretch.live,
            "refused": stretch.refused.map(|reason| reason.name()),
        })
    };
    json!({
        "refused": told.refused().map(|reason| reason.name()),
        "whole": told.whole.is_some(),
        "pieces": told.pieces,
        "stretches": told.stretches.iter().map(stretch).collect::<Vec<_>>(),
    })
}

/// See [`node::wings::CacheWing::explain`].
pub(crate) fn explain(input: &CacheInput<'_>, settings: &Config, now: u64) -> Result<Offloaded, CannotOffload> {
    let CacheInput { part, bytes, port } = input;
    let entries = part.pipeline.tables.keys().map(|table| part.state.entries(table).count()).sum::<usize>();
    if entries > MAX_ENTRIES {
        return Err(CannotOffload::TooMuch(entries));
    }
    let cache = CacheConfig::default();
    let mut cache = FlowCache::new(part.pipeline.clone(), settings.clone(), cache).map_err(|_| CannotOffload::Bug)?;
    for batch in node::writes(&part.state).map_err(|_| CannotOffload::Bug)? {
        // The program's own entries are there already.
        batch.apply_what_fits(|batch| cache.write(batch));
    }
    let (_, told) = cache.explain(bytes, *port, now);
    Ok(Offloaded { document: document(&told), text: told.to_string() })
}
