//! The reference engine.

use super::turns::Turns;
use super::{Controlled, one_by_one};
use interp::{Config, DigestMessage, EntryLevel, IdleEntry, Interp, MeterLevel, Registers};
use ir::{ExternId, Pipeline, TableId};
use jit::{ActionTally, TableTally, Tallies};
use num_bigint::BigUint;
use packet::Engine;
use std::sync::Arc;
use tables::{CounterData, Entry, State, WriteBatch, WriteError};

pub(super) fn load(pipeline: &Arc<Pipeline>, settings: &Config) -> Result<Box<dyn Controlled>, String> {
    let engine = Interp::new(pipeline.clone(), settings.clone()).map_err(|error| error.to_string())?;
    Ok(Box::new(Reference { pipeline: pipeline.clone(), engine: Turns::new(engine) }))
}

struct Reference {
    pipeline: Arc<Pipeline>,
    engine: Turns<Interp>,
}

impl Controlled for Reference {
    fn name(&self) -> &'static str {
        "interp"
    }

    fn pipeline(&self) -> &Arc<Pipeline> {
        &self.pipeline
    }

    fn worker(&self) -> Box<dyn Engine> {
        self.engine.worker()
    }

    fn look(&self, at: &mut dyn FnMut(&State)) {
        at(self.engine.turn().state());
    }

    fn write(&mut self, batch: &WriteBatch) -> Result<(), WriteError> {
        self.engine.turn().write(batch)
    }

    fn counter(&self, counter: ExternId, index: u64) -> Option<CounterData> {
        self.engine.turn().counter(counter, index)
    }

    fn counted(&self, counter: ExternId, end: u64) -> Vec<(u64, CounterData)> {
        let engine = self.engine.turn();
        one_by_one(end.min(engine.array_len(counter).unwrap_or(0)), |index| engine.counter(counter, index))
    }

    fn array_len(&self, object: ExternId) -> Option<u64> {
        self.engine.turn().array_len(object)
    }

    fn register(&self, register: ExternId, index: u64) -> Option<Vec<BigUint>> {
        self.engine.turn().register(register, index)
    }

    fn registers(&self) -> Registers {
        let engine = self.engine.shared();
        Registers::new(move |register, index| engine.turn().register(register, index))
    }

    fn entry_counter(&self, table: TableId, entry: &Entry) -> Option<CounterData> {
        self.engine.turn().entry_counter(table, entry)
    }

    fn entry_idle_for(&self, table: TableId, entry: &Entry) -> Option<u64> {
        self.engine.turn().entry_idle_for(table, entry)
    }

    fn take_digests(&mut self) -> Vec<DigestMessage> {
        self.engine.turn().take_digests()
    }

    fn advance_time(&mut self, now: u64) -> Vec<IdleEntry> {
        let mut engine = self.engine.turn();
        let mut idle = engine.advance_time(now);
        idle.extend(engine.take_idle());
        idle
    }

    fn hold_idle(&self, hold: bool) {
        self.engine.turn().hold_idle(hold);
    }

    fn meter_levels(&self, meter: ExternId) -> Vec<(u64, MeterLevel)> {
        self.engine.turn().meter_levels(meter)
    }

    fn set_meter_level(&self, meter: ExternId, index: u64, level: MeterLevel) {
        self.engine.turn().set_meter_level(meter, index, level);
    }

    fn entry_level(&self, table: TableId, entry: &Entry) -> Option<EntryLevel> {
        self.engine.turn().entry_level(table, entry)
    }

    fn set_entry_level(&self, table: TableId, entry: &Entry, level: EntryLevel) {
        self.engine.turn().set_entry_level(table, entry, level);
    }

    fn flow_id(&self) -> u32 {
        self.engine.turn().flow_id()
    }

    fn set_flow_id(&self, id: u32) {
        self.engine.turn().set_flow_id(id);
    }

    fn tallies(&self) -> Tallies {
        let engine = self.engine.turn();
        let at = |table: TableId| {
            let actions = engine.applied(table).map(|(action, [misses, hits])| ActionTally { action, hits, misses });
            TableTally { table, actions: actions.collect() }
        };
        Tallies { stages: Vec::new(), tables: self.pipeline.tables.keys().map(at).collect() }
    }

    fn without_code(&self) -> Option<String> {
        Some("asked".to_owned())
    }
}
