//! A device that forwards nothing, but has tables: what is written is checked and kept by the code that a node has for it.

use bytes::Bytes;
use entries::{Counter, Entry, State, WriteBatch, WriteError};
use ir::{ExternId, ExternKind, Pipeline, TableId};
use num_bigint::BigUint;
use p4runtime::{Code, Device, EventSink, Forwarding, Keep, Refusal};
use parking_lot::Mutex;
use std::sync::Arc;

/// The device.
pub struct Tables {
    running: Mutex<(Forwarding, State)>,
    saved: Mutex<Option<Forwarding>>,
}

impl Tables {
    /// Runs a config, and has written nothing yet.
    pub fn new(forwarding: Forwarding) -> Tables {
        let state = State::new(forwarding.pipeline.clone()).expect("the pipeline is consistent");
        Tables { running: Mutex::new((forwarding, state)), saved: Mutex::default() }
    }

    /// As it was when it was handed out by [`Device::state`].
    pub fn back_to(&self, forwarding: Forwarding, state: State) {
        *self.running.lock() = (forwarding, state);
        *self.saved.lock() = None;
    }
}

impl Device for Tables {
    fn id(&self) -> u64 {
        1
    }

    fn verify(&self, device_config: &[u8]) -> Result<Arc<Pipeline>, Refusal> {
        let text = std::str::from_utf8(device_config).map_err(|_| Refusal::invalid("no text"))?;
        let pipeline = ir::text::parse(text).map_err(|_| Refusal::invalid("no pipeline"))?;
        ir::verify::verify(&pipeline).map_err(|_| Refusal::invalid("it contradicts itself"))?;
        Ok(Arc::new(pipeline))
    }

    fn save(&self, config: &Forwarding) -> Result<(), Refusal> {
        *self.saved.lock() = Some(config.clone());
        Ok(())
    }

    fn commit(&self, config: &Forwarding, _: Keep) -> Result<(), Refusal> {
        let state = State::new(config.pipeline.clone()).map_err(|error| Refusal::invalid(error.to_string()))?;
        self.back_to(config.clone(), state);
        Ok(())
    }

    fn saved(&self) -> Option<Forwarding> {
        self.saved.lock().clone()
    }

    fn running(&self) -> Option<Forwarding> {
        Some(self.running.lock().0.clone())
    }

    fn write(&self, batches: &[WriteBatch]) -> Result<Vec<Result<(), WriteError>>, Refusal> {
        let (_, state) = &mut *self.running.lock();
        Ok(batches.iter().map(|batch| state.apply(batch).map(drop)).collect())
    }

    fn state(&self) -> Option<State> {
        Some(self.running.lock().1.clone())
    }

    fn counter(&self, counter: ExternId, index: u64) -> Option<Counter> {
        (index < self.array_len(counter)?).then(Counter::default)
    }

    fn direct_counter(&self, _: TableId, _: &Entry) -> Option<Counter> {
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

    fn idle_for(&self, _: TableId, _: &Entry) -> Option<u64> {
        Some(1)
    }

    fn packet_out(&self, bytes: Bytes) -> Result<(), Refusal> {
        match bytes.len() > 9_000 {
            true => Err(Refusal::new(Code::InvalidArgument, "too long")),
            false => Ok(()),
        }
    }

    fn subscribe(&self, _: EventSink) {}
}
