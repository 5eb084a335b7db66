//! What a flow cache keeps of a packet's way.

use super::super::failure::Failure;
use super::super::inputs::Inputs;
use super::super::ui::Ui;
use super::input::Input;
use cache_engines::document;
use flowcache::{CacheConfig, FlowCache};
use interp::Config;
use node::explain::answer::Verdicted;
use packet::hex;
use serde_json::json;
use std::sync::Arc;

/// Runs the packet and says it.
pub(super) fn tell(inputs: &Inputs, input: &Input, ui: Ui) -> Result<(), Failure> {
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
