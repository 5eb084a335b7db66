//! Device that forwards nothing, but has tables. The node's own code checks and stores writes.

use bytes::Bytes;
use entries::{ControlState, Counter, StoredEntry, WriteBatch, WriteError};
use ir::{ExternId, ExternKind, Pipeline, TableId};
use num_bigint::BigUint;
use p4runtime::{Code, Device, EventSink, P4RuntimeError, PipelineConfig, ReconcileMode};
use parking_lot::Mutex;
use std::sync::Arc;

/// Test device.
pub struct Tables {
    running: Mutex<(PipelineConfig, ControlState)>,
    saved: Mutex<Option<PipelineConfig>>,
}

impl Tables {
    /// Creates a device that runs a config, without written state.
    pub fn new(forwarding: PipelineConfig) -> Tables {
        let state = ControlState::new(forwarding.pipeline.clone()).expect("the pipeline is consistent");
        Tables { running: Mutex::new((forwarding, state)), saved: Mutex::default() }
    }

    /// Restores a state that [`Device::state`] returned.
    pub fn back_to(&self, forwarding: PipelineConfig, state: ControlState) {
        *self.running.lock() = (forwarding, state);
        *self.saved.lock() = None;
    }
}

impl Device for Tables {
    fn id(&self) -> u64 {
        1
    }

    fn verify(&self, device_config: &[u8]) -> Result<Arc<Pipeline>, P4RuntimeError> {
        let text = std::str::from_utf8(device_config).map_err(|_| P4RuntimeError::invalid("no text"))?;
        let pipeline = ir::text::parse(text).map_err(|_| P4RuntimeError::invalid("no pipeline"))?;
        ir::verify::verify(&pipeline).map_err(|_| P4RuntimeError::invalid("it contradicts itself"))?;
        Ok(Arc::new(pipeline))
    }

    fn save(&self, config: &PipelineConfig) -> Result<(), P4RuntimeError> {
        *self.saved.lock() = Some(config.clone());
        Ok(())
    }

    fn commit(&self, config: &PipelineConfig, _: ReconcileMode) -> Result<(), P4RuntimeError> {
        let state =
            ControlState::new(config.pipeline.clone()).map_err(|error| P4RuntimeError::invalid(error.to_string()))?;
        self.back_to(config.clone(), state);
        Ok(())
    }

    fn saved(&self) -> Option<PipelineConfig> {
        self.saved.lock().clone()
    }

    fn running(&self) -> Option<PipelineConfig> {
        Some(self.running.lock().0.clone())
    }

    fn write(&self, batches: &[WriteBatch]) -> Result<Vec<Result<(), WriteError>>, P4RuntimeError> {
        let (_, state) = &mut *self.running.lock();
        Ok(batches.iter().map(|batch| state.apply(batch).map(drop)).collect())
    }

    fn state(&self) -> Option<ControlState> {
        Some(self.running.lock().1.clone())
    }

    fn counter(&self, counter: ExternId, index: u64) -> Option<Counter> {
        (index < self.array_len(counter)?).then(Counter::default)
    }

    fn direct_counter(&self, _: TableId, _: &StoredEntry) -> Option<Counter> {
        Some(Counter::default())
    }

    fn register(&self, register: ExternId, index: u64) -> Option<Vec<BigUint>> {
        match &self.running.lock().0.pipeline.externs.get(register)?.kind {
            ExternKind::Register { elem, size, .. } => (index < *size).then(|| vec![BigUint::ZERO; elem.len()]),
            _ => None,
        }
    }

    fn array_len(&self, object: ExternId) -> Option<u64> {
        match self.running.lock().0.pipeline.externs.get(object)?.kind {
            ExternKind::Counter { size, .. } | ExternKind::Meter { size, .. } | ExternKind::Register { size, .. } => {
                Some(size)
            }
            _ => None,
        }
    }

    fn idle_for(&self, _: TableId, _: &StoredEntry) -> Option<u64> {
        Some(1)
    }

    fn packet_out(&self, bytes: Bytes) -> Result<(), P4RuntimeError> {
        match bytes.len() > 9_000 {
            true => Err(P4RuntimeError::new(Code::InvalidArgument, "too long")),
            false => Ok(()),
        }
    }

    fn subscribe(&self, _: EventSink) {}
}
