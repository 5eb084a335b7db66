//! Batches and device configs on their way to and from the store.

use crate::store::KeptConfig;
use entries::{State, Update, WriteBatch};
use ir::Pipeline;
use p4runtime::{Forwarding, Refusal};
use std::sync::Arc;

/// The same batch with its entries in words, which take less time and room in tables and store. Those that cannot be packed stay as they are: to apply
/// them says why.
pub(crate) fn packed(state: &State, batch: &WriteBatch) -> WriteBatch {
    let one = |update: &Update| match update {
        Update::Entry(kind, entry) => match state.pack(*kind, entry) {
            Ok(entry) => Update::Packed(*kind, entry),
            Err(_) => update.clone(),
        },
        other => other.clone(),
    };
    batch.updates.iter().map(one).collect()
}

/// The pipeline of a device config, verified; whether an engine can run it is not looked at.
pub(crate) fn parse(device_config: &[u8]) -> Result<Arc<Pipeline>, Refusal> {
    let form = "write it with `terrace compile PROGRAM.p4`";
    let text = std::str::from_utf8(device_config)
        .map_err(|_| Refusal::invalid(format!("the device config is not a pipeline in text form; {form}")))?;
    let pipeline = ir::text::parse(text).map_err(|errors| {
        let first = errors.first().map(ToString::to_string).unwrap_or_default();
        Refusal::invalid(format!("the device config is no pipeline: {first}; {form}"))
    })?;
    if let Err(errors) = ir::verify::verify(&pipeline) {
        let first = errors.first().map(ToString::to_string).unwrap_or_default();
        return Err(Refusal::invalid(format!("the device config contradicts itself: {first}; {form}")));
    }
    Ok(Arc::new(pipeline))
}

/// A config that was kept, ready to be run.
pub(crate) fn forwarding(kept: KeptConfig) -> Result<Forwarding, Refusal> {
    let pipeline = parse(&kept.device_config)?;
    let (p4info, device_config) = (kept.p4info.into(), kept.device_config.into());
    Ok(Forwarding { pipeline, p4info, device_config, cookie: kept.cookie })
}

pub(crate) fn kept(config: &Forwarding) -> KeptConfig {
    KeptConfig { p4info: config.p4info.to_vec(), device_config: config.device_config.to_vec(), cookie: config.cookie }
}
