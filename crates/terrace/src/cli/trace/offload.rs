//! Explains which parts of a packet's path a flow cache can keep.

use super::super::failure::CommandError;
use super::super::inputs::ProgramInputs;
use super::super::ui::OutputSettings;
use super::input::TracedInput;
use cache_engines::document;
use flowcache::{SegmentCache, SegmentCacheConfig};
use interp::Config;
use node::explain::trace_json::VerdictJson;
use packet::hex;
use serde_json::json;
use std::sync::Arc;

/// Runs the packet through a flow cache and prints the explanation.
pub(super) fn print_offload_explanation(
    inputs: &ProgramInputs,
    input: &TracedInput,
    ui: OutputSettings,
) -> Result<(), CommandError> {
    let mut cache = SegmentCache::new(Arc::clone(&inputs.pipeline), Config::default(), SegmentCacheConfig::default())
        .map_err(|error| CommandError::Bug(error.to_string()))?;
    cache.write(&inputs.batch).map_err(|refused| CommandError::refused(&refused.error))?;
    let (outputs, told) = cache.explain(&input.bytes, input.port, input.at);
    let document = json!({
        "packet": { "port": input.port, "bytes": input.bytes.len(), "hex": hex(&input.bytes) },
        "offload": document(&told),
        "verdicts": VerdictJson::all(&outputs, cache.interp().reasons()),
    });
    ui.result(&document, || told.to_string())
}
