//! [`SharedEngine`]: an engine that workers and the control plane share under a mutex.

use packet::{Batch, BatchOutput, Engine, ReasonTable};
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;

/// An engine under a mutex. Workers lock it for a batch, the control plane for a request.
pub struct SharedEngine<E>(Arc<Mutex<E>>);

impl<E> Clone for SharedEngine<E> {
    /// Returns a handle of the same engine.
    fn clone(&self) -> SharedEngine<E> {
        SharedEngine(self.0.clone())
    }
}

impl<E: Engine + 'static> SharedEngine<E> {
    /// Shares `engine`.
    pub fn new(engine: E) -> SharedEngine<E> {
        SharedEngine(Arc::new(Mutex::new(engine)))
    }

    /// Waits for exclusive access.
    pub fn lock_engine(&self) -> MutexGuard<'_, E> {
        self.0.lock()
    }

    /// Creates a worker's handle of the engine.
    pub fn new_worker(&self) -> Box<dyn Engine> {
        let engine = self.lock_engine();
        let (name, reasons) = (engine.name().to_owned(), engine.reasons().clone());
        let takes_offloads = engine.takes_offloads();
        drop(engine);
        Box::new(SharedEngineWorker { engine: self.clone(), name, reasons, takes_offloads, told: Vec::new() })
    }
}

struct SharedEngineWorker<E> {
    engine: SharedEngine<E>,
    name: String,
    reasons: ReasonTable,
    takes_offloads: bool,
    /// Notes of the engine about packets with a trace id, taken before another worker locks the
    /// engine.
    told: Vec<(u16, String)>,
}

impl<E: Engine + 'static> Engine for SharedEngineWorker<E> {
    fn name(&self) -> &str {
        &self.name
    }

    fn reasons(&self) -> &ReasonTable {
        &self.reasons
    }

    fn takes_offloads(&self) -> bool {
        self.takes_offloads
    }

    fn process(&mut self, batch: &mut Batch, out: &mut BatchOutput) {
        let marked = batch.packets().iter().any(|packet| packet.trace_id != 0);
        let mut engine = self.engine.lock_engine();
        engine.process(batch, out);
        if marked {
            self.told = engine.take_trace_notes();
        }
    }

    fn take_trace_notes(&mut self) -> Vec<(u16, String)> {
        std::mem::take(&mut self.told)
    }

    fn tick(&mut self, now: u64, out: &mut BatchOutput) {
        self.engine.lock_engine().tick(now, out);
    }

    fn on_idle(&mut self) {
        self.engine.lock_engine().on_idle();
    }
}
