//! [`WorkerEngines`]: control side of the engines of several workers that wrap native code or the
//! reference engine.

use super::control::load_batch_by_batch;
use super::engine_state::EngineState;
use super::{CapacityError, EngineControl};
use entries::{ControlState, Counter, StoredEntry, WriteBatch, WriteError};
use interp::{
    DigestMessage, EntryRuntimeState, IdleEntry, MeterFill, PoolControl, Registers, RestingPort, SessionState,
};
use ir::{ExternId, Pipeline, TableId};
use jit::EngineStats;
use num_bigint::BigUint;
use packet::{Engine, EngineCounters};
use std::sync::Arc;

/// The workers of an engine and their shared state. Clones share the same state.
pub trait WorkerSet: Clone + Send + Sync + 'static {
    /// Type of the engine that holds the state.
    type Inner: EngineState;

    /// Name as in configurations.
    const NAME: &'static str;

    /// Creates the engine of another worker.
    fn new_worker(&self) -> Box<dyn Engine>;

    /// Calls `at` with exclusive access to the state.
    fn with_inner<T>(&self, at: impl FnOnce(&mut Self::Inner) -> T) -> T;

    /// Adds counts that workers keep elsewhere to the state, before it is read.
    fn merge_counts(&self) {}

    /// Applies a batch atomically. All workers use the new version from their next batch of packets
    /// on.
    ///
    /// # Errors
    /// An update is invalid, or capacity is exhausted; nothing has changed.
    fn write_batch(&self, batch: &WriteBatch) -> Result<(), WriteError>;

    /// Applies the valid updates of many batches to an engine without workers. Invalid updates are
    /// skipped, because packets can have changed the entries that they refer to.
    ///
    /// # Errors
    /// The capacity is exhausted; earlier updates are applied.
    fn load(&self, batches: &mut dyn Iterator<Item = WriteBatch>) -> Result<(), CapacityError> {
        load_batch_by_batch(batches, &mut |batch| self.write_batch(batch))
    }

    /// Advances the clock to `now` (ns), and returns the expired entries.
    fn expire_entries(&self, now: u64) -> Vec<IdleEntry>;

    /// Returns the number of packets that each tier completed, if the engine has several tiers.
    fn packets_by_tier(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// Ends work outside of this process, after which the counters are final. Called when no worker
    /// runs the engine any longer.
    fn retire(&self) {}

    /// Returns the counters of packets that bypassed the workers, because the kernel handled them.
    /// The program's counters include these packets.
    fn bypass_counters(&self) -> EngineCounters {
        EngineCounters::default()
    }

    /// Returns notes for the operator about how the engine runs the program: table placement,
    /// missing counts.
    fn status_notes(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Control side of a set of workers with shared state.
pub struct WorkerEngines<W> {
    pipeline: Arc<Pipeline>,
    workers: W,
    fallback_reason: Option<String>,
}

impl<W: WorkerSet> WorkerEngines<W> {
    /// Creates the control side. `fallback_reason`: why the state is not held by native code, if
    /// so.
    pub fn new_control(
        pipeline: &Arc<Pipeline>,
        workers: W,
        fallback_reason: Option<String>,
    ) -> Box<dyn EngineControl> {
        Box::new(WorkerEngines { pipeline: pipeline.clone(), workers, fallback_reason })
    }

    /// Calls `at` with the state after merging all counts.
    fn with_merged_counts<T>(&self, at: impl FnOnce(&mut W::Inner) -> T) -> T {
        self.workers.merge_counts();
        self.workers.with_inner(at)
    }
}

impl<W: WorkerSet> EngineControl for WorkerEngines<W> {
    fn name(&self) -> &'static str {
        W::NAME
    }

    fn pipeline(&self) -> &Arc<Pipeline> {
        &self.pipeline
    }

    fn new_worker(&self) -> Box<dyn Engine> {
        self.workers.new_worker()
    }

    fn visit_state(&self, at: &mut dyn FnMut(&ControlState)) {
        self.workers.with_inner(|held| held.visit_state(at));
    }

    fn write(&mut self, batch: &WriteBatch) -> Result<(), WriteError> {
        self.workers.write_batch(batch)
    }

    fn load(&mut self, batches: &mut dyn Iterator<Item = WriteBatch>) -> Result<(), CapacityError> {
        self.workers.load(batches)
    }

    fn counter(&self, counter: ExternId, index: u64) -> Option<Counter> {
        self.with_merged_counts(|held| held.counter(counter, index))
    }

    fn counted(&self, counter: ExternId, end: u64) -> Vec<(u64, Counter)> {
        self.with_merged_counts(|held| held.counted(counter, end))
    }

    fn array_len(&self, object: ExternId) -> Option<u64> {
        self.workers.with_inner(|held| held.array_len(object))
    }

    fn register(&self, register: ExternId, index: u64) -> Option<Vec<BigUint>> {
        self.workers.with_inner(|held| held.register(register, index))
    }

    fn registers(&self) -> Registers {
        let [values, pools, quotas] = [(); 3].map(|()| self.workers.clone());
        Registers::new(move |register, index| values.with_inner(|held| held.register(register, index)))
            .with_ports(move |pool, request, now| {
                let mut port = None;
                pools.with_inner(|held| held.with_port_pool(pool, &mut |pool| port = Some(pool.preview(request, now))));
                port
            })
            .with_quotas(move |quota, owner| quotas.with_inner(|held| held.quota_entries(quota, owner)))
    }

    fn entry_counter(&self, table: TableId, entry: &StoredEntry) -> Option<Counter> {
        self.with_merged_counts(|held| held.entry_counter(table, entry))
    }

    fn entry_idle_for(&self, table: TableId, entry: &StoredEntry) -> Option<u64> {
        self.with_merged_counts(|held| held.entry_idle_for(table, entry))
    }

    fn take_digests(&mut self) -> Vec<DigestMessage> {
        self.workers.with_inner(|held| held.take_digests())
    }

    fn advance_time(&mut self, now: u64) -> Vec<IdleEntry> {
        let mut idle = self.workers.expire_entries(now);
        idle.extend(self.workers.with_inner(EngineState::take_idle));
        idle
    }

    fn hold_idle(&self, hold: bool) {
        self.workers.with_inner(|held| held.hold_idle(hold));
    }

    fn meter_levels(&self, meter: ExternId) -> Vec<(u64, MeterFill)> {
        self.workers.with_inner(|held| held.meter_levels(meter))
    }

    fn set_meter_level(&self, meter: ExternId, index: u64, level: MeterFill) {
        self.workers.with_inner(|held| held.set_meter_level(meter, index, level));
    }

    fn entry_level(&self, table: TableId, entry: &StoredEntry) -> Option<EntryRuntimeState> {
        self.with_merged_counts(|held| held.entry_level(table, entry))
    }

    fn set_entry_level(&self, table: TableId, entry: &StoredEntry, level: EntryRuntimeState) {
        self.workers.with_inner(|held| held.set_entry_level(table, entry, level));
    }

    fn entry_session(&self, table: TableId, entry: &StoredEntry) -> Option<SessionState> {
        self.workers.with_inner(|held| held.entry_session(table, entry))
    }

    fn restore_session(&self, table: TableId, entry: &StoredEntry, session: &SessionState) -> bool {
        self.workers.with_inner(|held| held.restore_session(table, entry, session))
    }

    fn resting_ports(&self) -> Vec<RestingPort> {
        self.workers.with_inner(|held| held.resting_ports())
    }

    fn restore_resting_port(&self, resting: &RestingPort) {
        self.workers.with_inner(|held| held.restore_resting_port(resting));
    }

    fn with_port_pool(&self, pool: ExternId, ask: &mut dyn FnMut(&mut dyn PoolControl)) {
        self.workers.with_inner(|held| held.with_port_pool(pool, ask));
    }

    fn flow_id(&self) -> u32 {
        self.workers.with_inner(|held| held.flow_id())
    }

    fn set_flow_id(&self, id: u32) {
        self.workers.with_inner(|held| held.set_flow_id(id));
    }

    fn tallies(&self) -> EngineStats {
        self.with_merged_counts(|held| held.tallies())
    }

    fn packets_by_tier(&self) -> Vec<(&'static str, u64)> {
        self.workers.merge_counts();
        self.workers.packets_by_tier()
    }

    fn retire(&mut self) {
        self.workers.retire();
    }

    fn bypass_counters(&self) -> EngineCounters {
        self.workers.merge_counts();
        self.workers.bypass_counters()
    }

    fn status_notes(&self) -> Vec<String> {
        self.workers.merge_counts();
        self.workers.status_notes()
    }

    fn fallback_reason(&self) -> Option<String> {
        self.fallback_reason.clone()
    }

    fn code_bytes(&self) -> usize {
        self.workers.with_inner(|held| held.code_bytes())
    }
}
