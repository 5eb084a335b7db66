//! [`Team`]: the workers of an engine that is not shared native code alone, as the control plane has them.

use super::controlled::load_one_by_one;
use super::holds::Holds;
use super::{Controlled, NoRoom};
use entries::{Counter, Entry, State, WriteBatch, WriteError};
use interp::{DigestMessage, EntryLevel, IdleEntry, MeterLevel, Registers};
use ir::{ExternId, Pipeline, TableId};
use jit::Tallies;
use num_bigint::BigUint;
use packet::{Engine, EngineCounters};
use std::sync::Arc;

/// Workers, and what they share. A clone is the same ones.
pub trait Workers: Clone + Send + Sync + 'static {
    /// What has the state.
    type Of: Holds;

    /// As in configurations.
    const NAME: &'static str;

    /// Another one.
    fn worker(&self) -> Box<dyn Engine>;

    /// What has the state is somebody's for a moment.
    fn with<T>(&self, at: impl FnOnce(&mut Self::Of) -> T) -> T;

    /// What workers have counted elsewhere is counted there, before it is read.
    fn merge(&self) {}

    /// See [`Controlled::write`].
    fn change(&self, batch: &WriteBatch) -> Result<(), WriteError>;

    /// See [`Controlled::load`].
    fn load(&self, batches: &mut dyn Iterator<Item = WriteBatch>) -> Result<(), NoRoom> {
        load_one_by_one(batches, &mut |batch| self.change(batch))
    }

    /// Time passes; the entries that are found idle.
    fn pass(&self, now: u64) -> Vec<IdleEntry>;

    /// How many packets each tier has done with, if it is several in one.
    fn served(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// See [`Controlled::retire`].
    fn retire(&self) {}

    /// See [`Controlled::beside_workers`].
    fn beside_workers(&self) -> EngineCounters {
        EngineCounters::default()
    }

    /// See [`Controlled::notes`].
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Workers with what they share, as an engine.
pub struct Team<W> {
    pipeline: Arc<Pipeline>,
    workers: W,
    without_code: Option<String>,
}

impl<W: Workers> Team<W> {
    /// `without_code`: why what has the state is no native code, if it is none.
    pub fn lead(pipeline: &Arc<Pipeline>, workers: W, without_code: Option<String>) -> Box<dyn Controlled> {
        Box::new(Team { pipeline: pipeline.clone(), workers, without_code })
    }

    /// All counts are in it.
    fn counted_up<T>(&self, at: impl FnOnce(&mut W::Of) -> T) -> T {
        self.workers.merge();
        self.workers.with(at)
    }
}

impl<W: Workers> Controlled for Team<W> {
    fn name(&self) -> &'static str {
        W::NAME
    }

    fn pipeline(&self) -> &Arc<Pipeline> {
        &self.pipeline
    }

    fn worker(&self) -> Box<dyn Engine> {
        self.workers.worker()
    }

    fn look(&self, at: &mut dyn FnMut(&State)) {
        self.workers.with(|held| held.look(at));
    }

    fn write(&mut self, batch: &WriteBatch) -> Result<(), WriteError> {
        self.workers.change(batch)
    }

    fn load(&mut self, batches: &mut dyn Iterator<Item = WriteBatch>) -> Result<(), NoRoom> {
        self.workers.load(batches)
    }

    fn counter(&self, counter: ExternId, index: u64) -> Option<Counter> {
        self.counted_up(|held| held.counter(counter, index))
    }

    fn counted(&self, counter: ExternId, end: u64) -> Vec<(u64, Counter)> {
        self.counted_up(|held| held.counted(counter, end))
    }

    fn array_len(&self, object: ExternId) -> Option<u64> {
        self.workers.with(|held| held.array_len(object))
    }

    fn register(&self, register: ExternId, index: u64) -> Option<Vec<BigUint>> {
        self.workers.with(|held| held.register(register, index))
    }

    fn registers(&self) -> Registers {
        let workers = self.workers.clone();
        Registers::new(move |register, index| workers.with(|held| held.register(register, index)))
    }

    fn entry_counter(&self, table: TableId, entry: &Entry) -> Option<Counter> {
        self.counted_up(|held| held.entry_counter(table, entry))
    }

    fn entry_idle_for(&self, table: TableId, entry: &Entry) -> Option<u64> {
        self.counted_up(|held| held.entry_idle_for(table, entry))
    }

    fn take_digests(&mut self) -> Vec<DigestMessage> {
        self.workers.with(|held| held.take_digests())
    }

    fn advance_time(&mut self, now: u64) -> Vec<IdleEntry> {
        let mut idle = self.workers.pass(now);
        idle.extend(self.workers.with(Holds::take_idle));
        idle
    }

    fn hold_idle(&self, hold: bool) {
        self.workers.with(|held| held.hold_idle(hold));
    }

    fn meter_levels(&self, meter: ExternId) -> Vec<(u64, MeterLevel)> {
        self.workers.with(|held| held.meter_levels(meter))
    }

    fn set_meter_level(&self, meter: ExternId, index: u64, level: MeterLevel) {
        self.workers.with(|held| held.set_meter_level(meter, index, level));
    }

    fn entry_level(&self, table: TableId, entry: &Entry) -> Option<EntryLevel> {
        self.counted_up(|held| held.entry_level(table, entry))
    }

    fn set_entry_level(&self, table: TableId, entry: &Entry, level: EntryLevel) {
        self.workers.with(|held| held.set_entry_level(table, entry, level));
    }

    fn flow_id(&self) -> u32 {
        self.workers.with(|held| held.flow_id())
    }

    fn set_flow_id(&self, id: u32) {
        self.workers.with(|held| held.set_flow_id(id));
    }

    fn tallies(&self) -> Tallies {
        self.counted_up(|held| held.tallies())
    }

    fn served(&self) -> Vec<(&'static str, u64)> {
        self.workers.merge();
        self.workers.served()
    }

    fn retire(&mut self) {
        self.workers.retire();
    }

    fn beside_workers(&self) -> EngineCounters {
        self.workers.merge();
        self.workers.beside_workers()
    }

    fn notes(&self) -> Vec<String> {
        self.workers.merge();
        self.workers.notes()
    }

    fn without_code(&self) -> Option<String> {
        self.without_code.clone()
    }

    fn code_bytes(&self) -> usize {
        self.workers.with(|held| held.code_bytes())
    }
}
