//! A device that forwards nothing: what is written can be read.

use bytes::Bytes;
use entries::{Change, Counter, Entry, State, WriteBatch, WriteError};
use ir::{ExternId, ExternKind, Pipeline, TableId};
use num_bigint::BigUint;
use p4runtime::{Device, EventSink, Forwarding, Keep, Refusal};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

type DirectCounters = HashMap<(TableId, Vec<u64>, i32), Counter>;

#[derive(Default)]
struct Values {
    counters: HashMap<(ExternId, u64), Counter>,
    direct: DirectCounters,
    registers: HashMap<(ExternId, u64), Vec<BigUint>>,
}

/// The device.
pub struct Kept {
    state: Mutex<State>,
    values: Mutex<Values>,
}

/// How long every entry has been idle, in nanoseconds.
pub const IDLE: u64 = 12_345;

impl Kept {
    pub fn new(pipeline: Arc<Pipeline>) -> Kept {
        let state = State::new(pipeline).expect("the pipeline is consistent");
        Kept { state: Mutex::new(state), values: Mutex::default() }
    }

    fn apply(&self, batch: &WriteBatch) -> Result<(), WriteError> {
        let changes = self.state.lock().unwrap().apply(batch)?;
        let mut values = self.values.lock().unwrap();
        let key = |table: TableId, entry: &Entry| (table, entry.key().to_vec(), entry.priority());
        for change in changes {
            match change {
                Change::Inserted(table, entry, data) => {
                    values.direct.insert(key(table, &entry), data);
                }
                Change::Modified(table, _, entry, Some(data)) | Change::DirectCounter(table, entry, data) => {
                    values.direct.insert(key(table, &entry), data);
                }
                Change::Counter(id, index, data) => {
                    values.counters.insert((id, index), data);
                }
                Change::Register(id, index, leaves) => {
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
    fn verify(&self, _: &[u8]) -> Result<Arc<Pipeline>, Refusal> {
        Err(Refusal::unimplemented("it runs one pipeline"))
    }
    fn save(&self, _: &Forwarding) -> Result<(), Refusal> {
        Err(Refusal::unimplemented("it runs one pipeline"))
    }
    fn commit(&self, _: &Forwarding, _: Keep) -> Result<(), Refusal> {
        Err(Refusal::unimplemented("it runs one pipeline"))
    }
    fn saved(&self) -> Option<Forwarding> {
        None
    }
    fn running(&self) -> Option<Forwarding> {
        None
    }
    fn write(&self, batches: &[WriteBatch]) -> Result<Vec<Result<(), WriteError>>, Refusal> {
        Ok(batches.iter().map(|batch| self.apply(batch)).collect())
    }
    fn state(&self) -> Option<State> {
        Some(self.state.lock().unwrap().clone())
    }
    fn counter(&self, counter: ExternId, index: u64) -> Option<Counter> {
        let known = self.values.lock().unwrap().counters.get(&(counter, index)).copied().unwrap_or_default();
        (index < self.array_len(counter)?).then_some(known)
    }
    fn direct_counter(&self, table: TableId, entry: &Entry) -> Option<Counter> {
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
    fn idle_for(&self, _: TableId, _: &Entry) -> Option<u64> {
        Some(IDLE)
    }
    fn packet_out(&self, _: Bytes) -> Result<(), Refusal> {
        Ok(())
    }
    fn subscribe(&self, _: EventSink) {}
}
