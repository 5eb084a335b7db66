//! Device that forwards nothing. It records its calls, can block writes, and sends events on
//! request.

use bytes::Bytes;
use entries::{ControlState, Counter, StoredEntry, WriteBatch, WriteError};
use ir::{ExternId, ExternKind, Pipeline, TableId};
use num_bigint::BigUint;
use p4runtime::{Code, Device, DeviceEvent, EventSink, P4RuntimeError, PipelineConfig, ReconcileMode};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Device id.
pub const DEVICE: u64 = 5;

/// Test device.
#[derive(Default)]
pub struct TestDevice {
    running: Mutex<Option<(PipelineConfig, ControlState)>>,
    saved: Mutex<Option<PipelineConfig>>,
    sink: Mutex<Option<EventSink>>,
    /// Packets that were sent into it.
    pub packets: Mutex<Vec<Bytes>>,
    /// State that the last commit had to keep.
    pub kept: Mutex<Option<ReconcileMode>>,
    /// Mutex that blocks writes while it is locked.
    pub gate: Mutex<()>,
    /// Number of writes that wait at the gate or have passed it.
    pub at_gate: AtomicU64,
    /// Whether writes fail to be stored.
    pub broken: AtomicBool,
    /// Number of received batches.
    pub batches: AtomicU64,
}

impl TestDevice {
    /// Sends an event. Returns whether the queue had space.
    pub fn send_event(&self, event: DeviceEvent) -> bool {
        let sink = self.sink.lock().unwrap().clone().expect("the server has subscribed");
        sink(event)
    }

    /// Returns the number of entries in all tables.
    pub fn entries(&self) -> usize {
        let Some(state) = self.state() else { return 0 };
        state.pipeline().clone().tables.keys().map(|table| state.entry_count(table)).sum()
    }
}

impl Device for TestDevice {
    fn id(&self) -> u64 {
        DEVICE
    }
    fn verify(&self, device_config: &[u8]) -> Result<Arc<Pipeline>, P4RuntimeError> {
        let text =
            std::str::from_utf8(device_config).map_err(|_| P4RuntimeError::invalid("the device config is no text"))?;
        let parsed =
            ir::text::parse(text).map_err(|errors| P4RuntimeError::invalid(format!("device config: {errors:?}")))?;
        Ok(Arc::new(parsed))
    }
    fn save(&self, config: &PipelineConfig) -> Result<(), P4RuntimeError> {
        *self.saved.lock().unwrap() = Some(config.clone());
        Ok(())
    }
    fn commit(&self, config: &PipelineConfig, keep: ReconcileMode) -> Result<(), P4RuntimeError> {
        let state =
            ControlState::new(config.pipeline.clone()).map_err(|error| P4RuntimeError::invalid(error.to_string()))?;
        *self.running.lock().unwrap() = Some((config.clone(), state));
        *self.saved.lock().unwrap() = None;
        *self.kept.lock().unwrap() = Some(keep);
        Ok(())
    }
    fn saved(&self) -> Option<PipelineConfig> {
        self.saved.lock().unwrap().clone()
    }
    fn running(&self) -> Option<PipelineConfig> {
        self.running.lock().unwrap().as_ref().map(|(config, _)| config.clone())
    }
    fn write(&self, batches: &[WriteBatch]) -> Result<Vec<Result<(), WriteError>>, P4RuntimeError> {
        self.at_gate.fetch_add(1, Ordering::SeqCst);
        drop(self.gate.lock().unwrap());
        self.batches.fetch_add(batches.len() as u64, Ordering::SeqCst);
        if self.broken.load(Ordering::SeqCst) {
            return Err(P4RuntimeError::new(Code::Unavailable, "the disk is full"));
        }
        let mut running = self.running.lock().unwrap();
        let (_, state) = running.as_mut().ok_or(P4RuntimeError::new(Code::FailedPrecondition, "nothing runs"))?;
        Ok(batches.iter().map(|batch| state.apply(batch).map(drop)).collect())
    }
    fn state(&self) -> Option<ControlState> {
        self.running.lock().unwrap().as_ref().map(|(_, state)| state.clone())
    }
    fn counter(&self, counter: ExternId, index: u64) -> Option<Counter> {
        (index < self.array_len(counter)?).then_some(Counter { packets: index, bytes: 0 })
    }
    fn direct_counter(&self, _: TableId, _: &StoredEntry) -> Option<Counter> {
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
    fn idle_for(&self, _: TableId, _: &StoredEntry) -> Option<u64> {
        Some(1)
    }
    fn packet_out(&self, bytes: Bytes) -> Result<(), P4RuntimeError> {
        if bytes.len() > 1514 {
            return Err(P4RuntimeError::invalid("the packet is too long"));
        }
        self.packets.lock().unwrap().push(bytes);
        Ok(())
    }
    fn subscribe(&self, sink: EventSink) {
        *self.sink.lock().unwrap() = Some(sink);
    }
}
