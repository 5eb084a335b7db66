//! [`EngineState`]: state of the reference engine and of native code, as the control plane accesses
//! it when another engine wraps either of them.

use super::scan_nonzero_elements;
use entries::{ControlState, Counter, StoredEntry};
use interp::{DigestMessage, EntryRuntimeState, IdleEntry, Interp, MeterFill, PoolControl, RestingPort, SessionState};
use ir::{ExternId, TableId};
use jit::{ActionStats, EngineStats, Jit, TableStats};
use num_bigint::BigUint;

/// State of an engine, with the access that [`EngineControl`](super::EngineControl) needs.
pub trait EngineState: Send {
    /// Calls `at` with the control-plane state, which includes entries added by packets.
    fn visit_state(&self, at: &mut dyn FnMut(&ControlState));

    /// Returns an element of an indexed counter, summed over all workers. Counts packets and bytes,
    /// whatever the counter's unit.
    fn counter(&self, counter: ExternId, index: u64) -> Option<Counter>;

    /// Returns index and value of the non-zero elements of an indexed counter, below index `end`.
    fn counted(&self, counter: ExternId, end: u64) -> Vec<(u64, Counter)>;

    /// Returns the number of elements of a counter, meter or register.
    fn array_len(&self, object: ExternId) -> Option<u64>;

    /// Returns the leaf values of a register's element.
    fn register(&self, register: ExternId, index: u64) -> Option<Vec<BigUint>>;

    /// Returns the direct counter of an entry of the table.
    fn entry_counter(&self, table: TableId, entry: &StoredEntry) -> Option<Counter>;

    /// Returns the nanoseconds since a packet hit an entry of the table, or since its insertion.
    fn entry_idle_for(&self, table: TableId, entry: &StoredEntry) -> Option<u64>;

    /// Takes the pending digest messages.
    fn take_digests(&mut self) -> Vec<DigestMessage>;

    /// Takes the entries that workers found idle since the last call.
    fn take_idle(&mut self) -> Vec<IdleEntry>;

    /// Suspends or resumes idle timeouts, for the transfer of entries between engines.
    fn hold_idle(&mut self, hold: bool);

    /// Returns the elements of an indexed meter whose buckets are not full, by index.
    fn meter_levels(&self, meter: ExternId) -> Vec<(u64, MeterFill)>;

    /// Sets the fill level of an element of an indexed meter. An unconfigured element stays
    /// unconfigured.
    fn set_meter_level(&mut self, meter: ExternId, index: u64, level: MeterFill);

    /// Returns the dynamic state of an entry of the table: the fill of its direct meter, and the
    /// time of its last hit. `None` if entries of this table have none.
    fn entry_level(&self, table: TableId, entry: &StoredEntry) -> Option<EntryRuntimeState>;

    /// Sets the dynamic state of an entry. Ignores entries that are not in the table.
    fn set_entry_level(&mut self, table: TableId, entry: &StoredEntry, level: EntryRuntimeState);

    /// Returns twin and ports of an entry of the table; `None` if it has neither.
    fn entry_session(&self, table: TableId, entry: &StoredEntry) -> Option<SessionState>;

    /// Gives an entry its twin and its ports, before packets use the table. Returns false if one of
    /// them is not to be had: then the entry is removed.
    fn restore_session(&mut self, table: TableId, entry: &StoredEntry, session: &SessionState) -> bool;

    /// Returns the resting ports of all pools.
    fn resting_ports(&self) -> Vec<RestingPort>;

    /// Lets a free port of a pool rest. Ignores one that is not free.
    fn restore_resting_port(&mut self, resting: &RestingPort);

    /// Calls `ask` with a pool of ports; not if there is no such pool.
    fn with_port_pool(&mut self, pool: ExternId, ask: &mut dyn FnMut(&mut dyn PoolControl));
    /// Returns how many entries of an owner a quota counts; `None` for another object.
    fn quota_entries(&self, quota: ExternId, owner: u32) -> Option<u32>;

    /// Returns the last flow id that was allocated (PNA `allocate_flow_id`).
    fn flow_id(&self) -> u32;

    /// Sets the flow id after which the next one is allocated.
    fn set_flow_id(&mut self, id: u32);

    /// Returns the statistics of each stage, table and action, over all workers.
    fn tallies(&self) -> EngineStats;

    /// Returns the size of the native code in bytes; 0 without native code.
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

    fn entry_session(&self, table: TableId, entry: &StoredEntry) -> Option<SessionState> {
        Interp::entry_session(self, table, entry)
    }

    fn restore_session(&mut self, table: TableId, entry: &StoredEntry, session: &SessionState) -> bool {
        Interp::restore_session(self, table, entry, session)
    }

    fn resting_ports(&self) -> Vec<RestingPort> {
        Interp::resting_ports(self)
    }

    fn restore_resting_port(&mut self, resting: &RestingPort) {
        Interp::restore_resting_port(self, resting);
    }

    fn with_port_pool(&mut self, pool: ExternId, ask: &mut dyn FnMut(&mut dyn PoolControl)) {
        if let Some(pool) = self.port_pool_mut(pool) {
            ask(pool);
        }
    }

    fn quota_entries(&self, quota: ExternId, owner: u32) -> Option<u32> {
        Interp::quota_entries(self, quota, owner)
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

    fn entry_session(&self, table: TableId, entry: &StoredEntry) -> Option<SessionState> {
        Jit::entry_session(self, table, entry)
    }

    fn restore_session(&mut self, table: TableId, entry: &StoredEntry, session: &SessionState) -> bool {
        Jit::restore_session(self, table, entry, session)
    }

    fn resting_ports(&self) -> Vec<RestingPort> {
        Jit::resting_ports(self)
    }

    fn restore_resting_port(&mut self, resting: &RestingPort) {
        Jit::restore_resting_port(self, resting);
    }

    fn with_port_pool(&mut self, pool: ExternId, ask: &mut dyn FnMut(&mut dyn PoolControl)) {
        Jit::with_port_pool(self, pool, ask);
    }

    fn quota_entries(&self, quota: ExternId, owner: u32) -> Option<u32> {
        Jit::quota_entries(self, quota, owner)
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
