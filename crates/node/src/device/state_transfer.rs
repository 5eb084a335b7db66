//! Transfer of dynamic state into an engine: batches of entries, and the values of extern objects.

use crate::engine::{CapacityError, EngineControl};
use crate::migrate::PipelineMapping;
use entries::{StateUpdate, WriteBatch};
use ir::{Const, ExternKind};
use num_bigint::BigUint;

/// Loads batches into an engine that no worker runs yet, up to the first error. The inner result is
/// that of [`EngineControl::load`].
///
/// # Errors
/// Returns the error of `batches`; the batches before it are applied.
pub(crate) fn load_batches<E>(
    engine: &mut dyn EngineControl,
    batches: &mut dyn Iterator<Item = Result<WriteBatch, E>>,
) -> Result<Result<(), CapacityError>, E> {
    let mut failed = None;
    let mut good = std::iter::from_fn(|| match batches.next()? {
        Ok(batch) => Some(batch),
        Err(error) => {
            failed = Some(error);
            None
        }
    })
    .fuse();
    let loaded = engine.load(&mut good);
    failed.map_or(Ok(loaded), Err)
}

/// Returns updates for values of counters and registers that differ from the initial values of the
/// other pipeline.
pub(crate) fn extern_value_updates(engine: &dyn EngineControl, matching: &PipelineMapping<'_>) -> Vec<StateUpdate> {
    let mut updates = Vec::new();
    for (old, object) in engine.pipeline().externs.iter() {
        let Some(new) = matching.map_extern(old) else { continue };
        match object.kind {
            ExternKind::Counter { size, .. } => {
                let counted = engine.counted(old, size);
                updates.extend(counted.into_iter().map(|(index, data)| StateUpdate::Counter(new, index, data)));
            }
            ExternKind::Register { .. } => {
                let first = initial_value(&matching.new_pipeline().externs[new].kind);
                for index in 0..engine.array_len(old).unwrap_or(0) {
                    let value = engine.register(old, index).unwrap_or_default();
                    if value != first {
                        updates.push(StateUpdate::Register(new, Some(index), value));
                    }
                }
            }
            _ => {}
        }
    }
    updates
}

/// Returns the initial value of a register's elements.
fn initial_value(kind: &ExternKind) -> Vec<BigUint> {
    let ExternKind::Register { elem, initial, .. } = kind else { return Vec::new() };
    let leaf = |place| initial.get(place).map(|value: &Const| value.bits.clone()).unwrap_or_default();
    (0..elem.len()).map(leaf).collect()
}
