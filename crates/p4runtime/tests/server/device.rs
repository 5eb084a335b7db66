//! A device that forwards nothing: it keeps what it is told, can be held up, and says what it is made to say.

use bytes::Bytes;
use entries::{Counter, Entry, State, WriteBatch, WriteError};
use ir::{ExternId, ExternKind, Pipeline, TableId};
use num_bigint::BigUint;
use p4runtime::{Code, Device, Event, EventSink, Forwarding, Keep, Refusal};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Its number.
pub const DEVICE: u64 = 5;

/// The device.
#[derive(Default)]
pub struct TestDevice {
    running: Mutex<Option<(Forwarding, State)>>,
    saved: Mutex<Option<Forwarding>>,
    sink: Mutex<Option<EventSink>>,
    /// Packets that were sent into it.
    pub packets: Mutex<Vec<Bytes>>,
    /// What the last commit was to keep.
    pub kept: Mutex<Option<Keep>>,
    /// Writes wait as long as somebody holds it.
    pub gate: Mutex<()>,
    /// Writes that are waiting at the gate, or have passed it.
    pub at_gate: AtomicU64,
    /// Whether writes cannot be kept.
    pub broken: AtomicBool,
    /// Batches that were given to it.
    pub batches: AtomicU64,
}

impl TestDevice {
    /// Tells something; whether there was room.
    pub fn tell(&self, event: Event) -> bool {
        let sink = self.sink.lock().unwrap().clone().expect("the server has subscribed");
        sink(event)
    }

    /// All entries of its tables.
    pub fn entries(&self) -> usize {
        let Some(state) = self.state() else { return 0 };
        state.pipeline().clone().tables.keys().map(|table| state.entry_count(table)).sum()
    }
}

impl Device for TestDevice {
    fn id(&self) -> u64 {
        DEVICE
    }
    fn verify(&self, device_config: &[u8]) -> Result<Arc<Pipeline>, Refusal> {
        let text = std::str::from_utf8(device_config).map_err(|_| Refusal::invalid("the device config is no text"))?;
        let parsed = ir::text::parse(text).map_err(|errors| Refusal::invalid(format!("device config: {errors:?}")))?;
        Ok(Arc::new(parsed))
    }
    fn save(&self, config: &Forwarding) -> Result<(), Refusal> {
        *self.saved.lock().unwrap() = Some(config.clone());
        Ok(())
    }
    fn commit(&self, config: &Forwarding, keep: Keep) -> Result<(), Refusal> {
        let state = State::new(config.pipeline.clone()).map_err(|error| Refusal::invalid(error.to_string()))?;
        *self.running.lock().unwrap() = Some((config.clone(), state));
        *self.saved.lock().unwrap() = None;
        *self.kept.lock().unwrap() = Some(keep);
        Ok(())
    }
    fn saved(&self) -> Option<Forwarding> {
        self.saved.lock().unwrap().clone()
    }
    fn running(&self) -> Option<Forwarding> {
        self.running.lock().unwrap().as_ref().map(|(config, _)| config.clone())
    }
    fn write(&self, batches: &[WriteBatch]) -> Result<Vec<Result<(), WriteError>>, Refusal> {
        self.at_gate.fetch_add(1, Ordering::SeqCst);
        drop(self.gate.lock().unwrap());
        self.batches.fetch_add(batches.len() as u64, Ordering::SeqCst);
        if self.broken.load(Ordering::SeqCst) {
            return Err(Refusal::new(Code::Unavailable, "the disk is full"));
        }
        let mut running = self.running.lock().unwrap();
        let (_, state) = running.as_mut().ok_or(Refusal::new(Code::FailedPrecondition, "nothing runs"))?;
        Ok(batches.iter().map(|batch| state.apply(batch).map(drop)).collect())
    }
    fn state(&self) -> Option<State> {
        self.running.lock().unwrap().as_ref().map(|(_, state)| state.clone())
    }
    fn counter(&self, counter: ExternId, index: u64) -> Option<Counter> {
        (index < self.array_len(counter)?).then_some(Counter { packets: index, bytes: 0 })
    }
    fn direct_counter(&self, _: TableId, _: &Entry) -> Option<Counter> {
        None
    }
    fn register(&self, _: ExternId, _: u64) -> Option<Vec<BigUint>> {
        None
    }
    fn array_len(&self, object: ExternId) -> Option<u64> {
        match self.running()?.pipeline.externs.get(object)?.kind {
            ExternKind::Counter { size, .. } => Some(size),
            _ => None,
        }
    }
    fn idle_for(&self, _: TableId, _: &Entry) -> Option<u64> {
        Some(1)
    }
    fn packet_out(&self, bytes: Bytes) -> Result<(), Refusal> {
        if bytes.len() > 1514 {
            return Err(Refusal::invalid("the packet is too long"));
        }
        self.packets.lock().unwrap().push(bytes);
        Ok(())
    }
    fn subscribe(&self, sink: EventSink) {
        *self.sink.lock().unwrap() = Some(sink);
    }
}
