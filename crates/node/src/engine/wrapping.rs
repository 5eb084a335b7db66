//! Engines around one inner engine that holds all state, either the reference engine or native
//! code. Workers share the engine under a lock, for one packet or one batch at a time.

use super::EngineControl;
use super::engine_state::EngineState;
use super::shared::SharedEngine;
use super::worker_engines::{WorkerEngines, WorkerSet};
use entries::{WriteBatch, WriteError};
use interp::IdleEntry;
use ir::Pipeline;
use packet::{Engine, EngineCounters};
use std::sync::Arc;

/// An engine that wraps another one, which holds all state.
pub trait WrappingEngine: Engine + Send + 'static {
    /// Type of the inner engine.
    type Inner: EngineState;

    /// Name as in configurations.
    const NAME: &'static str;

    /// Returns the inner engine.
    fn inner_mut(&mut self) -> &mut Self::Inner;

    /// Applies a batch atomically. All workers use the new version from their next batch of packets
    /// on.
    ///
    /// # Errors
    /// An update is invalid, or capacity is exhausted; nothing has changed.
    fn write_batch(&mut self, batch: &WriteBatch) -> Result<(), WriteError>;

    /// Advances the clock to `now` (ns), and returns the expired entries.
    fn expire_entries(&mut self, now: u64) -> Vec<IdleEntry>;

    /// Returns the number of packets that each tier completed, if the engine has several tiers.
    fn packets_by_tier(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// Ends work outside of this process.
    fn retire(&mut self) {}

    /// Returns the counters of packets that bypassed the workers.
    fn bypass_counters(&self) -> EngineCounters {
        EngineCounters::default()
    }

    /// Returns notes for the operator about how the engine runs the program: table placement,
    /// missing counts.
    fn status_notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// Adds counts from outside of this process to the engine's counters, before they are read.
    fn merge_counts(&mut self) {}
}

/// Creates the control side of an engine that workers share under a lock. `fallback_reason`: why
/// the inner engine is not native code, if so.
pub fn shared_control<E: WrappingEngine>(
    pipeline: &Arc<Pipeline>,
    engine: E,
    fallback_reason: Option<String>,
) -> Box<dyn EngineControl> {
    WorkerEngines::new_control(pipeline, SharedEngine::new(engine), fallback_reason)
}

impl<E: WrappingEngine> WorkerSet for SharedEngine<E> {
    type Inner = E::Inner;

    const NAME: &'static str = E::NAME;

    fn new_worker(&self) -> Box<dyn Engine> {
        SharedEngine::new_worker(self)
    }

    fn with_inner<T>(&self, at: impl FnOnce(&mut E::Inner) -> T) -> T {
        at(self.lock_engine().inner_mut())
    }

    fn merge_counts(&self) {
        self.lock_engine().merge_counts();
    }

    fn write_batch(&self, batch: &WriteBatch) -> Result<(), WriteError> {
        self.lock_engine().write_batch(batch)
    }

    fn expire_entries(&self, now: u64) -> Vec<IdleEntry> {
        self.lock_engine().expire_entries(now)
    }

    fn packets_by_tier(&self) -> Vec<(&'static str, u64)> {
        self.lock_engine().packets_by_tier()
    }

    fn retire(&self) {
        self.lock_engine().retire();
    }

    fn bypass_counters(&self) -> EngineCounters {
        self.lock_engine().bypass_counters()
    }

    fn status_notes(&self) -> Vec<String> {
        self.lock_engine().status_notes()
    }
}
