//! Conversion of batches and device configs to and from the stored form.

use crate::store::StoredConfig;
use entries::{ControlState, StateUpdate, WriteBatch};
use ir::Pipeline;
use p4runtime::{P4RuntimeError, PipelineConfig};
use std::sync::Arc;

/// Packs the entries of a batch, because packed entries take less time and memory in tables and
/// store. Entries that cannot be packed stay as they are; applying them returns the error.
pub(crate) fn pack_batch(state: &ControlState, batch: &WriteBatch) -> WriteBatch {
    let one = |update: &StateUpdate| match update {
        StateUpdate::Entry(kind, entry) => match state.pack_entry(*kind, entry) {
            Ok(entry) => StateUpdate::Packed(*kind, entry),
            Err(_) => update.clone(),
        },
        other => other.clone(),
    };
    batch.updates.iter().map(one).collect()
}

/// Parses and verifies the pipeline of a device config. Does not check whether an engine can run
/// it.
pub(crate) fn parse_device_config(device_config: &[u8]) -> Result<Arc<Pipeline>, P4RuntimeError> {
    let form = "write it with `terrace compile PROGRAM.p4`";
    let text = std::str::from_utf8(device_config)
        .map_err(|_| P4RuntimeError::invalid(format!("the device config is not a pipeline in text form; {form}")))?;
    let pipeline = ir::text::parse(text).map_err(|errors| {
        let first = errors.first().map(ToString::to_string).unwrap_or_default();
        P4RuntimeError::invalid(format!("the device config is no pipeline: {first}; {form}"))
    })?;
    if let Err(errors) = ir::verify::verify(&pipeline) {
        let first = errors.first().map(ToString::to_string).unwrap_or_default();
        return Err(P4RuntimeError::invalid(format!("the device config contradicts itself: {first}; {form}")));
    }
    Ok(Arc::new(pipeline))
}

/// Converts a stored config to a runnable one.
pub(crate) fn config_from_store(kept: StoredConfig) -> Result<PipelineConfig, P4RuntimeError> {
    let pipeline = parse_device_config(&kept.device_config)?;
    let (p4info, device_config) = (kept.p4info.into(), kept.device_config.into());
    Ok(PipelineConfig { pipeline, p4info, device_config, cookie: kept.cookie })
}

pub(crate) fn config_to_store(config: &PipelineConfig) -> StoredConfig {
    StoredConfig { p4info: config.p4info.to_vec(), device_config: config.device_config.to_vec(), cookie: config.cookie }
}
