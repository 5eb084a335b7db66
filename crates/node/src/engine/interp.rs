//! The reference engine, and those that are it inside: a flow cache.

use super::turns::Turns;
use super::{Controlled, one_by_one};
use interp::{Config, DigestMessage, EntryLevel, IdleEntry, Interp, MeterLevel, Registers};
use ir::{ExternId, Pipeline, TableId};
use jit::{ActionTally, TableTally, Tallies};
use num_bigint::BigUint;
use packet::Engine;
use std::sync::{Arc, MutexGuard};
use tables::{CounterData, Entry, State, WriteBatch, WriteError};

pub(super) fn load(pipeline: &Arc<Pipeline>, settings: &Config) -> Result<Box<dyn Controlled>, String> {
    let engine = Interp::new(pipeline.clone(), settings.clone()).map_err(|error| error.to_string())?;
    Ok(Box::new(Reference { pipeline: pipeline.clone(), engine: Turns::new(engine) }))
}

/// An engine whose state is a reference engine's.
pub(super) trait Inside: Engine + Send + 'static {
    /// As in configurations.
    const NAME: &'static str;

    fn inside(&self) -> &Interp;

    fn inside_mut(&mut self) -> &mut Interp;

    fn change(&mut self, batch: &WriteBatch) -> Result<(), WriteError>;

    /// Time passes; the entries that are found idle.
    fn pass(&mut self, now: u64) -> Vec<IdleEntry>;

    /// How many packets each tier has done with, if it is several in one.
    fn served(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// What somebody else has counted for it is counted here before it is read.
    fn merge(&mut self) {}
}

impl Inside for Interp {
    const NAME: &'static str = "interp";

    fn inside(&self) -> &Interp {
        self
    }

    fn inside_mut(&mut self) -> &mut Interp {
        self
    }

    fn change(&mut self, batch: &WriteBatch) -> Result<(), WriteError> {
        self.write(batch)
    }

    fn pass(&mut self, now: u64) -> Vec<IdleEntry> {
        self.advance_time(now)
    }
}

pub(super) struct Reference<E> {
    pub pipeline: Arc<Pipeline>,
    pub engine: Turns<E>,
}

impl<E: Inside> Reference<E> {
    /// Waits for a turn, and has all counts in it.
    fn counted_up(&self) -> MutexGuard<'_, E> {
        let mut turn = self.engine.turn();
        turn.merge();
        turn
    }
}

impl<E: Inside> Controlled for Reference<E> {
    fn name(&self) -> &'static str {
        E::NAME
    }

    fn pipeline(&self) -> &Arc<Pipeline> {
        &self.pipeline
    }

    fn worker(&self) -> Box<dyn Engine> {
        self.engine.worker()
    }

    fn look(&self, at: &mut dyn FnMut(&State)) {
        at(self.engine.turn().inside().state());
    }

    fn write(&mut self, batch: &WriteBatch) -> Result<(), WriteError> {
        self.engine.turn().change(batch)
    }

    fn counter(&self, counter: ExternId, index: u64) -> Option<CounterData> {
        self.counted_up().inside().counter(counter, index)
    }

    fn counted(&self, counter: ExternId, end: u64) -> Vec<(u64, CounterData)> {
        let turn = self.counted_up();
        let engine = turn.inside();
        one_by_one(end.min(engine.array_len(counter).unwrap_or(0)), |index| engine.counter(counter, index))
    }

    fn array_len(&self, object: ExternId) -> Option<u64> {
        self.engine.turn().inside().array_len(object)
    }

    fn register(&self, register: ExternId, index: u64) -> Option<Vec<BigUint>> {
        self.engine.turn().inside().register(register, index)
    }

    fn registers(&self) -> Registers {
        let engine = self.engine.shared();
        Registers::new(move |register, index| engine.turn().inside().register(register, index))
    }

    fn entry_counter(&self, table: TableId, entry: &Entry) -> Option<CounterData> {
        self.counted_up().inside().entry_counter(table, entry)
    }

    fn entry_idle_for(&self, table: TableId, entry: &Entry) -> Option<u64> {
        self.counted_up().inside().entry_idle_for(table, entry)
    }

    fn take_digests(&mut self) -> Vec<DigestMessage> {
        self.engine.turn().inside_mut().take_digests()
    }

    fn advance_time(&mut self, now: u64) -> Vec<IdleEntry> {
        let mut engine = self.engine.turn();
        let mut idle = engine.pass(now);
        idle.extend(engine.inside_mut().take_idle());
        idle
    }

    fn hold_idle(&self, hold: bool) {
        self.engine.turn().inside_mut().hold_idle(hold);
    }

    fn meter_levels(&self, meter: ExternId) -> Vec<(u64, MeterLevel)> {
        self.engine.turn().inside().meter_levels(meter)
    }

    fn set_meter_level(&self, meter: ExternId, index: u64, level: MeterLevel) {
        self.engine.turn().inside_mut().set_meter_level(meter, index, level);
    }

    fn entry_level(&self, table: TableId, entry: &Entry) -> Option<EntryLevel> {
        self.counted_up().inside().entry_level(table, entry)
    }

    fn set_entry_level(&self, table: TableId, entry: &Entry, level: EntryLevel) {
        self.engine.turn().inside_mut().set_entry_level(table, entry, level);
    }

    fn flow_id(&self) -> u32 {
        self.engine.turn().inside().flow_id()
    }

    fn set_flow_id(&self, id: u32) {
        self.engine.turn().inside_mut().set_flow_id(id);
    }

    fn tallies(&self) -> Tallies {
        let turn = self.counted_up();
        let engine = turn.inside();
        let at = |table: TableId| {
            let actions = engine.applied(table).map(|(action, [misses, hits])| ActionTally { action, hits, misses });
            TableTally { table, actions: actions.collect() }
        };
        Tallies { stages: Vec::new(), tables: self.pipeline.tables.keys().map(at).collect() }
    }

    fn served(&self) -> Vec<(&'static str, u64)> {
        self.counted_up().served()
    }

    fn notes(&self) -> Vec<String> {
        self.counted_up().notes()
    }

    fn without_code(&self) -> Option<String> {
        Some("asked".to_owned())
    }
}
