//! [`Turns`]: an engine that runs one packet at a time and keeps all in one place, shared by workers that take turns.

use packet::{Batch, Engine, Output, ReasonTable};
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;

/// The engine. Its workers and the control plane have it for a batch, or a request, each.
pub struct Turns<E>(Arc<Mutex<E>>);

impl<E> Clone for Turns<E> {
    /// The same engine.
    fn clone(&self) -> Turns<E> {
        Turns(self.0.clone())
    }
}

impl<E: Engine + 'static> Turns<E> {
    /// Of this engine.
    pub fn new(engine: E) -> Turns<E> {
        Turns(Arc::new(Mutex::new(engine)))
    }

    /// Waits for a turn.
    pub fn turn(&self) -> MutexGuard<'_, E> {
        self.0.lock()
    }

    /// A worker's engine.
    pub fn worker(&self) -> Box<dyn Engine> {
        let engine = self.turn();
        let (name, reasons) = (engine.name().to_owned(), engine.reasons().clone());
        drop(engine);
        Box::new(Worker { engine: self.clone(), name, reasons, told: Vec::new() })
    }
}

struct Worker<E> {
    engine: Turns<E>,
    name: String,
    reasons: ReasonTable,
    /// What it said of packets with a mark, before others had their turn.
    told: Vec<(u16, String)>,
}

impl<E: Engine + 'static> Engine for Worker<E> {
    fn name(&self) -> &str {
        &self.name
    }

    fn reasons(&self) -> &ReasonTable {
        &self.reasons
    }

    fn process(&mut self, batch: &mut Batch, out: &mut Output) {
        let marked = batch.packets().iter().any(|packet| packet.mark != 0);
        let mut engine = self.engine.turn();
        engine.process(batch, out);
        if marked {
            self.told = engine.told();
        }
    }

    fn told(&mut self) -> Vec<(u16, String)> {
        std::mem::take(&mut self.told)
    }

    fn tick(&mut self, now: u64, out: &mut Output) {
        self.engine.turn().tick(now, out);
    }

    fn rest(&mut self) {
        self.engine.turn().rest();
    }
}
