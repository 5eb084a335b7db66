//! Entries that packets have added: their way into the control state.
//!
//! Workers list the entries that they add. Whatever the control plane does next enters them in the
//! control state first, so that it reads, replaces and deletes them like its own.

use super::{EngineShared, Jit};
use crate::engine::Execution;
use crate::packet_written::AddedEntry;
use entries::StoredEntry;
use flowtable::RecordId;
use interp::host::ExternHost;
use ir::TableId;
use lookup::LiveTables;
use parking_lot::MutexGuard;

impl Jit {
    /// Returns what a table that packets write has refused since it was created, by reason: a full
    /// table, a bucket that others lock. `None` for another table, and under the interpreter.
    pub fn written_table_statistics(&self, table: TableId) -> Option<flowtable::Statistics> {
        match &self.execution {
            Execution::Native { shared, .. } => Some(shared.program.runtime.written.get(table)?.flows.statistics()),
            Execution::Interpreted { .. } => None,
        }
    }
}

impl EngineShared {
    /// Returns the tables, with all entries in the control state that packets have added.
    pub(crate) fn live_with_added_entries(&self) -> MutexGuard<'_, LiveTables> {
        let mut live = self.live.lock();
        self.record_added_entries(&mut live);
        live
    }

    /// Enters the entries that packets have added in the control state and in the host.
    pub(crate) fn record_added_entries(&self, live: &mut LiveTables) {
        let added = self.program.runtime.written.take_added();
        if added.is_empty() {
            return;
        }
        let mut host = self.host_at_latest_time();
        for entry in added {
            self.record_added_entry(live, &mut host, entry);
        }
    }

    fn record_added_entry(&self, live: &mut LiveTables, host: &mut ExternHost, added: AddedEntry) {
        let AddedEntry { table, record, profile, added_ns, has_host_state } = added;
        let read = self.program.runtime.written.with_control(table, |written, member| {
            let entry = member.entry(record)?;
            Some((written.codec.decode_key(entry.key), written.codec.decode_value(entry.value)))
        });
        // The control plane has replaced an entry that is gone.
        let Some((key, action)) = read.flatten() else { return };
        let timeout_ns = host.expire_time(table, profile);
        match live.record_added_entry(table, key, action, timeout_ns) {
            Some(entry) => host.entry_added((table, record.0), &entry, (added_ns, profile), has_host_state),
            // The control plane has filled the state's table since the packet added the entry.
            None => {
                let remove = |record| self.program.runtime.written.with_control(table, |_, m| m.remove_record(record));
                remove(record);
                if let Some((twin, entry)) = host.session_refused(table, record.0) {
                    remove(RecordId(twin));
                    entry.inspect(|entry| live.record_removed_entry(table, entry));
                }
            }
        }
    }

    /// Returns the number of an entry under which the host keeps its state; `None` if it keeps
    /// none.
    pub(crate) fn entry_number(&self, table: TableId, entry: &StoredEntry) -> Option<u32> {
        self.number_in(&self.live_with_added_entries(), table, entry)
    }

    /// Does what [`EngineShared::entry_number`] does with tables that the caller has locked.
    pub(crate) fn number_in(&self, live: &LiveTables, table: TableId, entry: &StoredEntry) -> Option<u32> {
        match self.program.runtime.written.get(table) {
            Some(_) => self.program.runtime.written.entry_number(table, entry),
            None => live.entry_id(table, entry),
        }
    }
}
