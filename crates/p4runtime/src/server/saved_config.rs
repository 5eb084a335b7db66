//! [`SavedConfig`]: a config that was saved and awaits `COMMIT`. Until then reads and writes use it
//! instead of the running one; `COMMIT` replays the writes (P4Runtime specification, section
//! "SetForwardingPipelineConfig RPC", `VERIFY_AND_SAVE` and `COMMIT`).
//!
//! The writes do not survive a restart; a take-over transfers them ([`super::ServerStateHandle`]).
//! The device stores the config itself.

use super::active_pipeline::{ActivePipeline, DigestConfigs};
use super::state_snapshot::UncommittedSnapshot;
use crate::{Code, Device, EventSink, P4RuntimeError, PipelineConfig, ReconcileMode};
use bytes::Bytes;
use entries::{ControlState, Counter, StateUpdate, StoredEntry, UpdateError, WriteBatch, WriteError};
use ir::{ExternId, ExternKind, Pipeline, TableId};
use num_bigint::BigUint;
use std::sync::Arc;

/// Maximum number of updates kept for the replay.
const UPDATES: usize = 16 << 20;

/// Config that awaits `COMMIT`. Copies are cheap.
#[derive(Clone)]
pub struct SavedConfig {
    pub program: Arc<ActivePipeline>,
    pub digests: DigestConfigs,
    state: ControlState,
    batches: Arc<Vec<WriteBatch>>,
    updates: usize,
}

impl SavedConfig {
    /// Creates a saved config without writes.
    ///
    /// # Errors
    /// `INTERNAL` if its own entries are not valid.
    pub fn new(forwarding: PipelineConfig, device: &dyn Device) -> Result<SavedConfig, P4RuntimeError> {
        let state = ControlState::new(forwarding.pipeline.clone());
        let mut state = state.map_err(|error| P4RuntimeError::new(Code::Internal, error.to_string()))?;
        let ports = std::iter::once(StateUpdate::Ports(device.ports())).collect();
        state.apply(&ports).map_err(|error| P4RuntimeError::new(Code::Internal, error.to_string()))?;
        let program = Arc::new(ActivePipeline::new(forwarding, device));
        Ok(SavedConfig { program, digests: DigestConfigs::new(), state, batches: Arc::default(), updates: 0 })
    }

    /// Returns the writes, to be sent to another process.
    pub fn snapshot(&self) -> UncommittedSnapshot {
        let digests = self.digests.iter().map(|(number, config)| (*number, *config)).collect();
        UncommittedSnapshot { digests, batches: self.batches.clone() }
    }

    /// Restores a config with the writes of another process.
    ///
    /// # Errors
    /// Those of [`SavedConfig::new`] and [`SavedConfig::write`]; `INVALID_ARGUMENT` if a write does
    /// not fit the config.
    pub fn restore(
        forwarding: PipelineConfig,
        form: &UncommittedSnapshot,
        device: &dyn Device,
    ) -> Result<SavedConfig, P4RuntimeError> {
        let mut saved = SavedConfig::new(forwarding, device)?;
        for batch in form.batches.iter() {
            if let Some(refused) = saved.write(batch)? {
                return Err(P4RuntimeError::invalid(format!(
                    "a write that waits for COMMIT is refused: {}",
                    refused.error
                )));
            }
        }
        saved.digests = form.digests.iter().copied().filter(|(id, _)| saved.program.has_digest(*id)).collect();
        Ok(saved)
    }

    /// Returns the state with the writes.
    pub fn state(&self) -> &ControlState {
        &self.state
    }

    /// Applies a batch; returns the rejected update, if any.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED` if there are too many writes.
    pub fn write(&mut self, batch: &WriteBatch) -> Result<Option<WriteError>, P4RuntimeError> {
        if self.updates + batch.updates.len() > UPDATES {
            return Err(P4RuntimeError::new(Code::ResourceExhausted, "too many writes wait for COMMIT; send it"));
        }
        Ok(match self.state.apply(batch) {
            Ok(_) => {
                self.updates += batch.updates.len();
                Arc::make_mut(&mut self.batches).push(batch.clone());
                None
            }
            Err(error) => Some(error),
        })
    }

    /// Commits the config and replays the writes.
    ///
    /// # Errors
    /// The errors of the device. If it rejects the config, nothing has changed.
    pub fn commit(&self, device: &dyn Device) -> Result<(), P4RuntimeError> {
        device.commit(&self.program.config, ReconcileMode::Nothing)?;
        if self.batches.is_empty() {
            return Ok(());
        }
        let refused: Option<UpdateError> =
            device.write(&self.batches)?.into_iter().find_map(|result| Some(result.err()?.error));
        match refused {
            None => Ok(()),
            Some(error) => Err(P4RuntimeError::new(
                Code::Internal,
                format!("the config was committed, but a write since it was saved could not be replayed: {error}"),
            )),
        }
    }
}

/// Stub device for reads of a saved config, in which no packet has changed any value.
pub struct UnstartedDevice(pub Arc<Pipeline>);

impl UnstartedDevice {
    fn unsupported<T>(&self) -> Result<T, P4RuntimeError> {
        Err(P4RuntimeError::new(Code::Internal, "a config that awaits COMMIT can only be read"))
    }
}

impl Device for UnstartedDevice {
    fn id(&self) -> u64 {
        0
    }
    fn verify(&self, _: &[u8]) -> Result<Arc<Pipeline>, P4RuntimeError> {
        self.unsupported()
    }
    fn save(&self, _: &PipelineConfig) -> Result<(), P4RuntimeError> {
        self.unsupported()
    }
    fn commit(&self, _: &PipelineConfig, _: ReconcileMode) -> Result<(), P4RuntimeError> {
        self.unsupported()
    }
    fn saved(&self) -> Option<PipelineConfig> {
        None
    }
    fn running(&self) -> Option<PipelineConfig> {
        None
    }
    fn write(&self, _: &[WriteBatch]) -> Result<Vec<Result<(), WriteError>>, P4RuntimeError> {
        self.unsupported()
    }
    fn state(&self) -> Option<ControlState> {
        None
    }
    fn counter(&self, counter: ExternId, index: u64) -> Option<Counter> {
        (index < self.array_len(counter)?).then(Counter::default)
    }
    fn direct_counter(&self, _: TableId, _: &StoredEntry) -> Option<Counter> {
        Some(Counter::default())
    }
    fn register(&self, register: ExternId, index: u64) -> Option<Vec<BigUint>> {
        let ExternKind::Register { elem, size, .. } = &self.0.externs.get(register)?.kind else { return None };
        (index < *size).then(|| vec![BigUint::ZERO; elem.len()])
    }
    fn array_len(&self, object: ExternId) -> Option<u64> {
        match self.0.externs.get(object)?.kind {
            ExternKind::Counter { size, .. } | ExternKind::Meter { size, .. } | ExternKind::Register { size, .. } => {
                Some(size)
            }
            _ => None,
        }
    }
    fn idle_for(&self, _: TableId, _: &StoredEntry) -> Option<u64> {
        Some(0)
    }
    fn packet_out(&self, _: Bytes) -> Result<(), P4RuntimeError> {
        self.unsupported()
    }
    fn subscribe(&self, _: EventSink) {}
}
