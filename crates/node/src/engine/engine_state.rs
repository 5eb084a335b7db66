//! [`EngineState`]: state of the reference engine and of native code, as the control plane accesses
//! it when another engine wraps either of them.

use super::scan_nonzero_elements;
use entries::{ControlState, Counter, StoredEntry};
use interp::{DigestMessage, EntryRuntimeState, IdleEntry, Interp, MeterFill};
use ir::{ExternId, TableId};
use jit::{ActionStats, EngineStats, Jit, TableStats};
use num_bigint::BigUint;

/// State of an engine, with the access that [`EngineControl`](super::EngineControl) needs.
pub trait EngineState: Send {
    /// Calls `at` with the control-plane state, which includes entries added by packets.
    fn visit_state(&self, at: &mut dyn FnMut(&ControlState));

    /// Implements [`super::EngineControl::counter`].
    fn counter(&self, counter: ExternId, index: u64) -> Option<Counter>;

    /// Implements [`super::EngineControl::counted`].
    fn counted(&self, counter: ExternId, end: u64) -> Vec<(u64, Counter)>;

    /// Implements [`super::EngineControl::array_len`].
    fn array_len(&self, object: ExternId) -> Option<u64>;

    /// Implements [`super::EngineControl::register`].
    fn register(&self, register: ExternId, index: u64) -> Option<Vec<BigUint>>;

    /// Implements [`super::EngineControl::entry_counter`].
    fn entry_counter(&self, table: TableId, entry: &StoredEntry) -> Option<Counter>;

    /// Implements [`super::EngineControl::entry_idle_for`].
    fn entry_idle_for(&self, table: TableId, entry: &StoredEntry) -> Option<u64>;

    /// Implements [`super::EngineControl::take_digests`].
    fn take_digests(&mut self) -> Vec<DigestMessage>;

    /// Takes the entries that workers found idle since the last call.
    fn take_idle(&mut self) -> Vec<IdleEntry>;

    /// Implements [`super::EngineControl::hold_idle`].
    fn hold_idle(&mut self, hold: bool);

    /// Implements [`super::EngineControl::meter_levels`].
    fn meter_levels(&self, meter: ExternId) -> Vec<(u64, MeterFill)>;

    /// Implements [`super::EngineControl::set_meter_level`].
    fn set_meter_level(&mut self, meter: ExternId, index: u64, level: MeterFill);

    /// Implements [`super::EngineControl::entry_level`].
    fn entry_level(&self, table: TableId, entry: &StoredEntry) -> Option<EntryRuntimeState>;

    /// Implements [`super::EngineControl::set_entry_level`].
    fn set_entry_level(&mut self, table: TableId, entry: &StoredEntry, level: EntryRuntimeState);

    /// Implements [`super::EngineControl::flow_id`].
    fn flow_id(&self) -> u32;

    /// Implements [`super::EngineControl::set_flow_id`].
    fn set_flow_id(&mut self, id: u32);

    /// Implements [`super::EngineControl::tallies`].
    fn tallies(&self) -> EngineStats;

    /// Implements [`super::EngineControl::code_bytes`].
    fn code_bytes(&self) -> usize {
        0
    }
}

impl EngineState for Interp {
    fn visit_state(&self, at: &mut dyn FnMut(&ControlState)) {
        at(self.state());
    }

    fn counter(&self, counter: ExternId, index: u64) -> Option<Counter> {
        Interp::counter(self, counter, index)
    }

    fn counted(&self, counter: ExternId, end: u64) -> Vec<(u64, Counter)> {
        let elements = end.min(self.array_len(counter).unwrap_or(0));
        scan_nonzero_elements(elements, |index| self.counter(counter, index))
    }

    fn array_len(&self, object: ExternId) -> Option<u64> {
        Interp::array_len(self, object)
    }

    fn register(&self, register: ExternId, index: u64) -> Option<Vec<BigUint>> {
        Interp::register(self, register, index)
    }

    fn entry_counter(&self, table: TableId, entry: &StoredEntry) -> Option<Counter> {
        Interp::entry_counter(self, table, entry)
    }

    fn entry_idle_for(&self, table: TableId, entry: &StoredEntry) -> Option<u64> {
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

    fn meter_levels(&self, meter: ExternId) -> Vec<(u64, MeterFill)> {
        Interp::meter_levels(self, meter)
    }

    fn set_meter_level(&mut self, meter: ExternId, index: u64, level: MeterFill) {
        Interp::set_meter_level(self, meter, index, level);
    }

    fn entry_level(&self, table: TableId, entry: &StoredEntry) -> Option<EntryRuntimeState> {
        Interp::entry_level(self, table, entry)
    }

    fn set_entry_level(&mut self, table: TableId, entry: &StoredEntry, level: EntryRuntimeState) {
        Interp::set_entry_level(self, table, entry, level);
    }

    fn flow_id(&self) -> u32 {
        Interp::flow_id(self)
    }

    fn set_flow_id(&mut self, id: u32) {
        Interp::set_flow_id(self, id);
    }

    fn tallies(&self) -> EngineStats {
        let at = |(table, _): (TableId, _)| {
            let actions =
                self.action_counters(table).map(|(action, [misses, hits])| ActionStats { action, hits, misses });
            TableStats { table, actions: actions.collect() }
        };
        EngineStats { stages: Vec::new(), tables: self.pipeline().tables.iter().map(at).collect() }
    }
}

impl EngineState for Jit {
    fn visit_state(&self, at: &mut dyn FnMut(&ControlState)) {
        self.with_state(at);
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

    fn entry_counter(&self, table: TableId, entry: &StoredEntry) -> Option<Counter> {
        Jit::entry_counter(self, table, entry)
    }

    fn entry_idle_for(&self, table: TableId, entry: &StoredEntry) -> Option<u64> {
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

    fn meter_levels(&self, meter: ExternId) -> Vec<(u64, MeterFill)> {
        Jit::meter_levels(self, meter)
    }

    fn set_meter_level(&mut self, meter: ExternId, index: u64, level: MeterFill) {
        Jit::set_meter_level(self, meter, index, level);
    }

    fn entry_level(&self, table: TableId, entry: &StoredEntry) -> Option<EntryRuntimeState> {
        Jit::entry_level(self, table, entry)
    }

    fn set_entry_level(&mut self, table: TableId, entry: &StoredEntry, level: EntryRuntimeState) {
        Jit::set_entry_level(self, table, entry, level);
    }

    fn flow_id(&self) -> u32 {
        Jit::flow_id(self)
    }

    fn set_flow_id(&mut self, id: u32) {
        Jit::set_flow_id(self, id);
    }

    fn tallies(&self) -> EngineStats {
        Jit::stats(self)
    }

    fn code_bytes(&self) -> usize {
        Jit::code_bytes(self)
    }
}
