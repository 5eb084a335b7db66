//! Device that forwards nothing and returns written state on reads.

use bytes::Bytes;
use entries::{ControlState, Counter, StateChange, StoredEntry, WriteBatch, WriteError};
use ir::{ExternId, ExternKind, Pipeline, TableId};
use num_bigint::BigUint;
use p4runtime::{Device, EventSink, P4RuntimeError, PipelineConfig, ReconcileMode};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

type DirectCounters = HashMap<(TableId, Vec<u64>, i32), Counter>;

#[derive(Default)]
struct Values {
    counters: HashMap<(ExternId, u64), Counter>,
    direct: DirectCounters,
    registers: HashMap<(ExternId, u64), Vec<BigUint>>,
}

/// Test device.
pub struct Kept {
    state: Mutex<ControlState>,
    values: Mutex<Values>,
}

/// Idle time of every entry, in nanoseconds.
pub const IDLE: u64 = 12_345;

impl Kept {
    pub fn new(pipeline: Arc<Pipeline>) -> Kept {
        let state = ControlState::new(pipeline).expect("the pipeline is consistent");
        Kept { state: Mutex::new(state), values: Mutex::default() }
    }

    fn apply(&self, batch: &WriteBatch) -> Result<(), WriteError> {
        let changes = self.state.lock().unwrap().apply(batch)?;
        let mut values = self.values.lock().unwrap();
        let key = |table: TableId, entry: &StoredEntry| (table, entry.key().to_vec(), entry.priority());
        for change in changes {
            match change {
                StateChange::Inserted(table, entry, data) => {
                    values.direct.insert(key(table, &entry), data);
                }
                StateChange::Modified(table, _, entry, Some(data)) | StateChange::DirectCounter(table, entry, data) => {
                    values.direct.insert(key(table, &entry), data);
                }
                StateChange::Counter(id, index, data) => {
                    values.counters.insert((id, index), data);
                }
                StateChange::Register(id, index, leaves) => {
                    let all = index.map_or(0..self.array_len(id).unwrap_or(0), |index| index..index + 1);
                    all.for_each(|index| drop(values.registers.insert((id, index), leaves.clone())));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl Device for Kept {
    fn id(&self) -> u64 {
        1
    }
    fn verify(&self, _: &[u8]) -> Result<Arc<Pipeline>, P4RuntimeError> {
        Err(P4RuntimeError::unimplemented("it runs one pipeline"))
    }
    fn save(&self, _: &PipelineConfig) -> Result<(), P4RuntimeError> {
        Err(P4RuntimeError::unimplemented("it runs one pipeline"))
    }
    fn commit(&self, _: &PipelineConfig, _: ReconcileMode) -> Result<(), P4RuntimeError> {
        Err(P4RuntimeError::unimplemented("it runs one pipeline"))
    }
    fn saved(&self) -> Option<PipelineConfig> {
        None
    }
    fn running(&self) -> Option<PipelineConfig> {
        None
    }
    fn write(&self, batches: &[WriteBatch]) -> Result<Vec<Result<(), WriteError>>, P4RuntimeError> {
        Ok(batches.iter().map(|batch| self.apply(batch)).collect())
    }
    fn state(&self) -> Option<ControlState> {
        Some(self.state.lock().unwrap().clone())
    }
    fn counter(&self, counter: ExternId, index: u64) -> Option<Counter> {
        let known = self.values.lock().unwrap().counters.get(&(counter, index)).copied().unwrap_or_default();
        (index < self.array_len(counter)?).then_some(known)
    }
    fn direct_counter(&self, table: TableId, entry: &StoredEntry) -> Option<Counter> {
        self.values.lock().unwrap().direct.get(&(table, entry.key().to_vec(), entry.priority())).copied()
    }
    fn register(&self, register: ExternId, index: u64) -> Option<Vec<BigUint>> {
        let state = self.state.lock().unwrap();
        let ExternKind::Register { elem, size, .. } = &state.pipeline().externs[register].kind else { return None };
        let known = self.values.lock().unwrap().registers.get(&(register, index)).cloned();
        (index < *size).then(|| known.unwrap_or(vec![BigUint::ZERO; elem.len()]))
    }
    fn array_len(&self, object: ExternId) -> Option<u64> {
        match self.state.lock().unwrap().pipeline().externs[object].kind {
            ExternKind::Counter { size, .. } | ExternKind::Meter { size, .. } | ExternKind::Register { size, .. } => {
                Some(size)
            }
            _ => None,
        }
    }
    fn idle_for(&self, _: TableId, _: &StoredEntry) -> Option<u64> {
        Some(IDLE)
    }
    fn packet_out(&self, _: Bytes) -> Result<(), P4RuntimeError> {
        Ok(())
    }
    fn subscribe(&self, _: EventSink) {}
}
