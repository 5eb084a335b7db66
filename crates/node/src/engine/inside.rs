//! Engines whose workers take turns: one packet or one batch at a time, and all state in one engine inside, which is the reference engine or native code.

use super::turns::Turns;
use super::{Controlled, one_by_one};
use interp::{DigestMessage, EntryLevel, IdleEntry, Interp, MeterLevel, Registers};
use ir::{ExternId, Pipeline, TableId};
use jit::{ActionTally, Jit, TableTally, Tallies};
use num_bigint::BigUint;
use packet::Engine;
use std::sync::{Arc, MutexGuard};
use tables::{CounterData, Entry, State, WriteBatch, WriteError};

/// What an engine holds, as [`Controlled`] has it.
pub(super) trait Holds: Send {
    fn look(&self, at: &mut dyn FnMut(&State));

    fn counter(&self, counter: ExternId, index: u64) -> Option<CounterData>;

    fn counted(&self, counter: ExternId, end: u64) -> Vec<(u64, CounterData)>;

    fn array_len(&self, object: ExternId) -> Option<u64>;

    fn register(&self, register: ExternId, index: u64) -> Option<Vec<BigUint>>;

    fn entry_counter(&self, table: TableId, entry: &Entry) -> Option<CounterData>;

    fn entry_idle_for(&self, table: TableId, entry: &Entry) -> Option<u64>;

    fn take_digests(&mut self) -> Vec<DigestMessage>;

    fn take_idle(&mut self) -> Vec<IdleEntry>;

    fn hold_idle(&mut self, hold: bool);

    fn meter_levels(&self, meter: ExternId) -> Vec<(u64, MeterLevel)>;

    fn set_meter_level(&mut self, meter: ExternId, index: u64, level: MeterLevel);

    fn entry_level(&self, table: TableId, entry: &Entry) -> Option<EntryLevel>;

    fn set_entry_level(&mut self, table: TableId, entry: &Entry, level: EntryLevel);

    fn flow_id(&self) -> u32;

    fn set_flow_id(&mut self, id: u32);

    fn tallies(&self) -> Tallies;

    /// See [`Controlled::code_bytes`].
    fn code_bytes(&self) -> usize {
        0
    }
}

impl Holds for Interp {
    fn look(&self, at: &mut dyn FnMut(&State)) {
        at(self.state());
    }

    fn counter(&self, counter: ExternId, index: u64) -> Option<CounterData> {
        Interp::counter(self, counter, index)
    }

    fn counted(&self, counter: ExternId, end: u64) -> Vec<(u64, CounterData)> {
        let elements = end.min(self.array_len(counter).unwrap_or(0));
        one_by_one(elements, |index| self.counter(counter, index))
    }

    fn array_len(&self, object: ExternId) -> Option<u64> {
        Interp::array_len(self, object)
    }

    fn register(&self, register: ExternId, index: u64) -> Option<Vec<BigUint>> {
        Interp::register(self, register, index)
    }

    fn entry_counter(&self, table: TableId, entry: &Entry) -> Option<CounterData> {
        Interp::entry_counter(self, table, entry)
    }

    fn entry_idle_for(&self, table: TableId, entry: &Entry) -> Option<u64> {
        Interp::entry_idle_for(self, table, entry)
    }

    fn take_digests(&mut self) -> Vec<DigestMessage> {
        Interp::take_digests(self)
    }

    fn take_idle(&mut self) -> Vec<IdleEntry> {
        Interp::take_idle(self)
    }

    fn hold_idle(&mut self, hold: bool) {
        Interp::hold_idle(self, hold);
    }

    fn meter_levels(&self, meter: ExternId) -> Vec<(u64, MeterLevel)> {
        Interp::meter_levels(self, meter)
    }

    fn set_meter_level(&mut self, meter: ExternId, index: u64, level: MeterLevel) {
        Interp::set_meter_level(self, meter, index, level);
    }

    fn entry_level(&self, table: TableId, entry: &Entry) -> Option<EntryLevel> {
        Interp::entry_level(self, table, entry)
    }

    fn set_entry_level(&mut self, table: TableId, entry: &Entry, level: EntryLevel) {
        Interp::set_entry_level(self, table, entry, level);
    }

    fn flow_id(&self) -> u32 {
        Interp::flow_id(self)
    }

    fn set_flow_id(&mut self, id: u32) {
        Interp::set_flow_id(self, id);
    }

    fn tallies(&self) -> Tallies {
        let at = |(table, _): (TableId, _)| {
            let actions = self.applied(table).map(|(action, [misses, hits])| ActionTally { action, hits, misses });
            TableTally { table, actions: actions.collect() }
        };
        Tallies { stages: Vec::new(), tables: self.pipeline().tables.iter().map(at).collect() }
    }
}

impl Holds for Jit {
    fn look(&self, at: &mut dyn FnMut(&State)) {
        self.with_state(at);
    }

    fn counter(&self, counter: ExternId, index: u64) -> Option<CounterData> {
        Jit::counter(self, counter, index)
    }

    fn counted(&self, counter: ExternId, end: u64) -> Vec<(u64, CounterData)> {
        Jit::counted(self, counter, end)
    }

    fn array_len(&self, object: ExternId) -> Option<u64> {
        Jit::array_len(self, object)
    }

    fn register(&self, register: ExternId, index: u64) -> Option<Vec<BigUint>> {
        Jit::register(self, register, index)
    }

    fn entry_counter(&self, table: TableId, entry: &Entry) -> Option<CounterData> {
        Jit::entry_counter(self, table, entry)
    }

    fn entry_idle_for(&self, table: TableId, entry: &Entry) -> Option<u64> {
        Jit::entry_idle_for(self, table, entry)
    }

    fn take_digests(&mut self) -> Vec<DigestMessage> {
        Jit::take_digests(self)
    }

    fn take_idle(&mut self) -> Vec<IdleEntry> {
        Jit::take_idle(self)
    }

    fn hold_idle(&mut self, hold: bool) {
        Jit::hold_idle(self, hold);
    }

    fn meter_levels(&self, meter: ExternId) -> Vec<(u64, MeterLevel)> {
        Jit::meter_levels(self, meter)
    }

    fn set_meter_level(&mut self, meter: ExternId, index: u64, level: MeterLevel) {
        Jit::set_meter_level(self, meter, index, level);
    }

    fn entry_level(&self, table: TableId, entry: &Entry) -> Option<EntryLevel> {
        Jit::entry_level(self, table, entry)
    }

    fn set_entry_level(&mut self, table: TableId, entry: &Entry, level: EntryLevel) {
        Jit::set_entry_level(self, table, entry, level);
    }

    fn flow_id(&self) -> u32 {
        Jit::flow_id(self)
    }

    fn set_flow_id(&mut self, id: u32) {
        Jit::set_flow_id(self, id);
    }

    fn tallies(&self) -> Tallies {
        Jit::tallies(self)
    }

    fn code_bytes(&self) -> usize {
        Jit::code_bytes(self)
    }
}

/// An engine with another one inside, which has all state.
pub(super) trait Inside: Engine + Send + 'static {
    /// What is inside.
    type Of: Holds;

    /// As in configurations.
    const NAME: &'static str;

    fn inside(&self) -> &Self::Of;

    fn inside_mut(&mut self) -> &mut Self::Of;

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

/// See the module.
pub(super) struct InTurns<E> {
    pipeline: Arc<Pipeline>,
    engine: Turns<E>,
    without_code: Option<String>,
}

impl<E: Inside> InTurns<E> {
    /// `without_code`: why the engine inside is no native code, if it is none.
    pub fn share(pipeline: &Arc<Pipeline>, engine: E, without_code: Option<String>) -> Box<dyn Controlled> {
        Box::new(InTurns { pipeline: pipeline.clone(), engine: Turns::new(engine), without_code })
    }

    /// Waits for a turn, and has all counts in it.
    fn counted_up(&self) -> MutexGuard<'_, E> {
        let mut turn = self.engine.turn();
        turn.merge();
        turn
    }
}

impl<E: Inside> Controlled for InTurns<E> {
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
        self.engine.turn().inside().look(at);
    }

    fn write(&mut self, batch: &WriteBatch) -> Result<(), WriteError> {
        self.engine.turn().change(batch)
    }

    fn counter(&self, counter: ExternId, index: u64) -> Option<CounterData> {
        self.counted_up().inside().counter(counter, index)
    }

    fn counted(&self, counter: ExternId, end: u64) -> Vec<(u64, CounterData)> {
        self.counted_up().inside().counted(counter, end)
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
        self.counted_up().inside().tallies()
    }

    fn served(&self) -> Vec<(&'static str, u64)> {
        self.counted_up().served()
    }

    fn notes(&self) -> Vec<String> {
        self.counted_up().notes()
    }

    fn without_code(&self) -> Option<String> {
        self.without_code.clone()
    }

    fn code_bytes(&self) -> usize {
        self.engine.turn().inside().code_bytes()
    }
}
