//! [`Holds`]: what the reference engine and native code hold, as the control plane reads and sets it where either is inside something else.

use super::counted_one_by_one;
use entries::{Counter, Entry, State};
use interp::{DigestMessage, EntryLevel, IdleEntry, Interp, MeterLevel};
use ir::{ExternId, TableId};
use jit::{ActionTally, Jit, TableTally, Tallies};
use num_bigint::BigUint;

/// What an engine holds, as [`Controlled`] has it.
pub trait Holds: Send {
    /// Shows what the control plane has written, and what packets have added.
    fn look(&self, at: &mut dyn FnMut(&State));

    /// See [`super::Controlled::counter`].
    fn counter(&self, counter: ExternId, index: u64) -> Option<Counter>;

    /// See [`super::Controlled::counted`].
    fn counted(&self, counter: ExternId, end: u64) -> Vec<(u64, Counter)>;

    /// See [`super::Controlled::array_len`].
    fn array_len(&self, object: ExternId) -> Option<u64>;

    /// See [`super::Controlled::register`].
    fn register(&self, register: ExternId, index: u64) -> Option<Vec<BigUint>>;

    /// See [`super::Controlled::entry_counter`].
    fn entry_counter(&self, table: TableId, entry: &Entry) -> Option<Counter>;

    /// See [`super::Controlled::entry_idle_for`].
    fn entry_idle_for(&self, table: TableId, entry: &Entry) -> Option<u64>;

    /// See [`super::Controlled::take_digests`].
    fn take_digests(&mut self) -> Vec<DigestMessage>;

    /// Takes the entries that were found idle between two looks.
    fn take_idle(&mut self) -> Vec<IdleEntry>;

    /// See [`super::Controlled::hold_idle`].
    fn hold_idle(&mut self, hold: bool);

    /// See [`super::Controlled::meter_levels`].
    fn meter_levels(&self, meter: ExternId) -> Vec<(u64, MeterLevel)>;

    /// See [`super::Controlled::set_meter_level`].
    fn set_meter_level(&mut self, meter: ExternId, index: u64, level: MeterLevel);

    /// See [`super::Controlled::entry_level`].
    fn entry_level(&self, table: TableId, entry: &Entry) -> Option<EntryLevel>;

    /// See [`super::Controlled::set_entry_level`].
    fn set_entry_level(&mut self, table: TableId, entry: &Entry, level: EntryLevel);

    /// See [`super::Controlled::flow_id`].
    fn flow_id(&self) -> u32;

    /// See [`super::Controlled::set_flow_id`].
    fn set_flow_id(&mut self, id: u32);

    /// See [`super::Controlled::tallies`].
    fn tallies(&self) -> Tallies;

    /// See [`super::Controlled::code_bytes`].
    fn code_bytes(&self) -> usize {
        0
    }
}

impl Holds for Interp {
    fn look(&self, at: &mut dyn FnMut(&State)) {
        at(self.state());
    }

    fn counter(&self, counter: ExternId, index: u64) -> Option<Counter> {
        Interp::counter(self, counter, index)
    }

    fn counted(&self, counter: ExternId, end: u64) -> Vec<(u64, Counter)> {
        let elements = end.min(self.array_len(counter).unwrap_or(0));
        counted_one_by_one(elements, |index| self.counter(counter, index))
    }

    fn array_len(&self, object: ExternId) -> Option<u64> {
        Interp::array_len(self, object)
    }

    fn register(&self, register: ExternId, index: u64) -> Option<Vec<BigUint>> {
        Interp::register(self, register, index)
    }

    fn entry_counter(&self, table: TableId, entry: &Entry) -> Option<Counter> {
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

    fn entry_counter(&self, table: TableId, entry: &Entry) -> Option<Counter> {
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
