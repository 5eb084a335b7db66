//! Native code. Programs that the JIT does not support fall back to the reference engine, with the
//! reason.

use super::{CapacityError, EngineControl, EngineFactory};
use entries::{ControlState, Counter, StoredEntry, WriteBatch, WriteError};
use interp::{
    Config, DigestMessage, EntryRuntimeState, IdleEntry, MeterFill, PoolControl, Registers, RestingPort, SessionState,
};
use ir::{ExternId, Pipeline, TableId};
use jit::{EngineStats, FlowTables, Jit};
use num_bigint::BigUint;
use p4runtime::P4RuntimeError;
use packet::Engine;
use std::convert::Infallible;
use std::sync::Arc;

/// Factory for `engine = "jit"`.
#[derive(Clone, Copy, Debug, Default)]
pub struct NativeFactory;

impl EngineFactory for NativeFactory {
    fn name(&self) -> &'static str {
        "jit"
    }

    fn load(&self, pipeline: &Arc<Pipeline>, settings: &Config) -> Result<Box<dyn EngineControl>, P4RuntimeError> {
        let engine = Jit::new(pipeline.clone(), settings.clone());
        Ok(Box::new(engine.map_err(|error| P4RuntimeError::unimplemented(error.to_string()))?))
    }
}

/// Returns the note for a program that falls back to the reference engine although native code was
/// configured.
fn fallback_note(why: &str) -> String {
    format!("fallback: the program runs on the reference engine, at about a tenth of native code's speed: {why}")
}

/// Returns the note for a program that reaches a limit of the code for eight packets.
fn vector_note(engine: &Jit) -> Option<String> {
    let refusal = engine.vector_refusal().filter(|refusal| refusal.is_limit())?;
    let packets: u64 = engine.vector_refusal_counts().values().sum();
    Some(format!("vector code: none, so {packets} packets took the slower code for one packet: {refusal}"))
}

impl EngineControl for Jit {
    fn name(&self) -> &'static str {
        if self.fallback_reason().is_some() { "interp" } else { "jit" }
    }

    fn pipeline(&self) -> &Arc<Pipeline> {
        Jit::pipeline(self)
    }

    fn new_worker(&self) -> Box<dyn Engine> {
        Box::new(Jit::new_worker(self))
    }

    fn visit_state(&self, at: &mut dyn FnMut(&ControlState)) {
        self.with_state(at);
    }

    fn visit_written_state(&self, at: &mut dyn FnMut(&ControlState)) {
        self.with_written_state(at);
    }

    fn write(&mut self, batch: &WriteBatch) -> Result<(), WriteError> {
        Jit::write(self, batch)
    }

    fn write_many(&mut self, batches: &[WriteBatch]) -> Vec<Result<(), WriteError>> {
        Jit::write_many(self, batches)
    }

    fn load(&mut self, batches: &mut dyn Iterator<Item = WriteBatch>) -> Result<(), CapacityError> {
        let Ok(()) = Jit::load_batches(self, batches.map(Ok::<_, Infallible>));
        // Its tables grow without bound, so the capacity is never exhausted.
        Ok(())
    }

    fn counter(&self, counter: ExternId, index: u64) -> Option<Counter> {
        Jit::counter(self, counter, index)
    }

    fn counted(&self, counter: ExternId, end: u64) -> Vec<(u64, Counter)> {
        Jit::nonzero_counters(self, counter, end)
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

    fn entry_counter(&self, table: TableId, entry: &StoredEntry) -> Option<Counter> {
        Jit::entry_counter(self, table, entry)
    }

    fn entry_idle_for(&self, table: TableId, entry: &StoredEntry) -> Option<u64> {
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

    fn maintain_tables(&mut self) {
        Jit::maintain_tables(self);
    }

    fn hold_idle(&self, hold: bool) {
        Jit::hold_idle(self, hold);
    }

    fn meter_levels(&self, meter: ExternId) -> Vec<(u64, MeterFill)> {
        Jit::meter_levels(self, meter)
    }

    fn set_meter_level(&self, meter: ExternId, index: u64, level: MeterFill) {
        Jit::set_meter_level(self, meter, index, level);
    }

    fn entry_level(&self, table: TableId, entry: &StoredEntry) -> Option<EntryRuntimeState> {
        Jit::entry_level(self, table, entry)
    }

    fn set_entry_level(&self, table: TableId, entry: &StoredEntry, level: EntryRuntimeState) {
        Jit::set_entry_level(self, table, entry, level);
    }

    fn entry_session(&self, table: TableId, entry: &StoredEntry) -> Option<SessionState> {
        Jit::entry_session(self, table, entry)
    }

    fn restore_session(&self, table: TableId, entry: &StoredEntry, session: &SessionState) -> bool {
        Jit::restore_session(self, table, entry, session)
    }

    fn resting_ports(&self) -> Vec<RestingPort> {
        Jit::resting_ports(self)
    }

    fn restore_resting_port(&self, resting: &RestingPort) {
        Jit::restore_resting_port(self, resting);
    }

    fn with_port_pool(&self, pool: ExternId, ask: &mut dyn FnMut(&mut dyn PoolControl)) {
        Jit::with_port_pool(self, pool, ask);
    }

    fn flow_id(&self) -> u32 {
        Jit::flow_id(self)
    }

    fn set_flow_id(&self, id: u32) {
        Jit::set_flow_id(self, id);
    }

    fn tallies(&self) -> EngineStats {
        Jit::stats(self)
    }

    fn worker_versions(&self) -> Vec<Option<u64>> {
        Jit::worker_versions(self)
    }

    fn table_memory(&self, table: TableId) -> usize {
        Jit::table_memory(self, table)
    }

    fn flow_tables(&self) -> Option<FlowTables> {
        Jit::flow_tables(self)
    }

    fn code_bytes(&self) -> usize {
        Jit::code_bytes(self)
    }

    fn fallback_reason(&self) -> Option<String> {
        self.fallback_reason().map(|why| why.to_string())
    }

    fn status_notes(&self) -> Vec<String> {
        let fallback = self.fallback_reason().map(|why| fallback_note(&why.to_string()));
        let sizes = Jit::flow_tables(self).map(|tables| tables.notes()).unwrap_or_default();
        fallback.into_iter().chain(vector_note(self)).chain(sizes).collect()
    }
}
