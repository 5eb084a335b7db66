//! What a flow cache keeps of a packet's way.

use super::super::failure::Failure;
use super::super::inputs::Inputs;
use super::super::ui::Ui;
use super::Input;
use flowcache::explain::{Key, Stretch};
use flowcache::{CacheConfig, Explanation, FlowCache};
use interp::Config;
use node::explain::answer::Verdicted;
use packet::hex;
use serde_json::{Value, json};
use std::sync::Arc;

/// Runs the packet and says it.
pub fn tell(inputs: &Inputs, input: &Input, ui: Ui) -> Result<(), Failure> {
    let mut cache = FlowCache::new(Arc::clone(&inputs.pipeline), Config::default(), CacheConfig::default())
        .map_err(|error| Failure::Bug(error.to_string()))?;
    cache.write(&inputs.batch).map_err(|refused| Failure::refused(&refused.error))?;
    let (outputs, told) = cache.explain(&input.bytes, input.port, input.at);
    let document = json!({
        "packet": { "port": input.port, "bytes": input.bytes.len(), "hex": hex(&input.bytes) },
        "offload": document(&told),
        "verdicts": Verdicted::all(&outputs, cache.interp().reasons()),
    });
    ui.result(&document, || told.to_string())
}

fn document(told: &Explanation) -> Value {
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
