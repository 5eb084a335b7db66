//! Native code. What it has no form for it runs on the reference engine, and says why.

use super::{Controlled, EngineFactory, NoRoom};
use entries::{Counter, Entry, State, WriteBatch, WriteError};
use interp::{Config, DigestMessage, EntryLevel, IdleEntry, MeterLevel, Registers};
use ir::{ExternId, Pipeline, TableId};
use jit::{Jit, Tallies};
use num_bigint::BigUint;
use p4runtime::Refusal;
use packet::Engine;
use std::convert::Infallible;
use std::sync::Arc;

/// `engine = "jit"`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Native;

impl EngineFactory for Native {
    fn name(&self) -> &'static str {
        "jit"
    }

    fn load(&self, pipeline: &Arc<Pipeline>, settings: &Config) -> Result<Box<dyn Controlled>, Refusal> {
        let engine = Jit::new(pipeline.clone(), settings.clone());
        Ok(Box::new(engine.map_err(|error| Refusal::unimplemented(error.to_string()))?))
    }
}

/// What to say if native code was asked for, and the program runs on the reference engine.
fn fallback_note(why: &str) -> String {
    format!("fallback: the program runs on the reference engine, at about a tenth of native code's speed: {why}")
}

impl Controlled for Jit {
    fn name(&self) -> &'static str {
        if self.unsupported().is_some() { "interp" } else { "jit" }
    }

    fn pipeline(&self) -> &Arc<Pipeline> {
        Jit::pipeline(self)
    }

    fn worker(&self) -> Box<dyn Engine> {
        Box::new(Jit::worker(self))
    }

    fn look(&self, at: &mut dyn FnMut(&State)) {
        self.with_state(at);
    }

    fn write(&mut self, batch: &WriteBatch) -> Result<(), WriteError> {
        Jit::write(self, batch)
    }

    fn write_many(&mut self, batches: &[WriteBatch]) -> Vec<Result<(), WriteError>> {
        Jit::write_many(self, batches)
    }

    fn load(&mut self, batches: &mut dyn Iterator<Item = WriteBatch>) -> Result<(), NoRoom> {
        let Ok(()) = Jit::load(self, batches.map(Ok::<_, Infallible>));
        // It has room for all that is valid.
        Ok(())
    }

    fn counter(&self, counter: ExternId, index: u64) -> Option<Counter> {
        Jit::counter(self, counter, index)
    }

    fn counted(&self, counter: ExternId, end: u64) -> Vec<(u64, Counter)> {
        Jit::counted(self, counter, end)
    }

    fn array_len(&self, object: ExternId) -> Option<u64> {
        Jit::array_len(self, object)
    }

    fn register(&self, register: ExternId, index: u64) -> Option<Vec<BigUint>> {
        Jit::register(self, register, index)
    }

    fn registers(&self) -> Registers {
        Jit::registers(self)
    }

    fn entry_counter(&self, table: TableId, entry: &Entry) -> Option<Counter> {
        Jit::entry_counter(self, table, entry)
    }

    fn entry_idle_for(&self, table: TableId, entry: &Entry) -> Option<u64> {
        Jit::entry_idle_for(self, table, entry)
    }

    fn take_digests(&mut self) -> Vec<DigestMessage> {
        Jit::take_digests(self)
    }

    fn advance_time(&mut self, now: u64) -> Vec<IdleEntry> {
        let mut idle = Jit::advance_time(self, now);
        idle.extend(self.take_idle());
        idle
    }

    fn tidy(&mut self) {
        Jit::tidy(self);
    }

    fn hold_idle(&self, hold: bool) {
        Jit::hold_idle(self, hold);
    }

    fn meter_levels(&self, meter: ExternId) -> Vec<(u64, MeterLevel)> {
        Jit::meter_levels(self, meter)
    }

    fn set_meter_level(&self, meter: ExternId, index: u64, level: MeterLevel) {
        Jit::set_meter_level(self, meter, index, level);
    }

    fn entry_level(&self, table: TableId, entry: &Entry) -> Option<EntryLevel> {
        Jit::entry_level(self, table, entry)
    }

    fn set_entry_level(&self, table: TableId, entry: &Entry, level: EntryLevel) {
        Jit::set_entry_level(self, table, entry, level);
    }

    fn flow_id(&self) -> u32 {
        Jit::flow_id(self)
    }

    fn set_flow_id(&self, id: u32) {
        Jit::set_flow_id(self, id);
    }

    fn tallies(&self) -> Tallies {
        Jit::tallies(self)
    }

    fn worker_versions(&self) -> Vec<Option<u64>> {
        Jit::worker_versions(self)
    }

    fn table_memory(&self, table: TableId) -> usize {
        Jit::table_memory(self, table)
    }

    fn code_bytes(&self) -> usize {
        Jit::code_bytes(self)
    }

    fn without_code(&self) -> Option<String> {
        self.unsupported().map(|why| why.to_string())
    }

    fn notes(&self) -> Vec<String> {
        self.unsupported().map(|why| fallback_note(&why.to_string())).into_iter().collect()
    }
}
