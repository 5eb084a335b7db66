//! Entries that packets have added: their way into the control state.
//!
//! Workers list the entries that they add. Whatever the control plane does next enters them in the
//! control state first, so that it reads, replaces and deletes them like its own.

use super::EngineShared;
use super::flow_tables::HOST_ENTRIES;
use crate::packet_written::AddedEntry;
use entries::StoredEntry;
use flowtable::RecordId;
use interp::host::ExternHost;
use ir::TableId;
use lookup::LiveTables;
use parking_lot::MutexGuard;

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
        // The host is free again after some entries, because workers may wait for it.
        for entries in added.chunks(HOST_ENTRIES) {
            let mut host = self.host_at_latest_time();
            for entry in entries {
                self.record_added_entry(live, &mut host, *entry);
            }
        }
    }

    fn record_added_entry(&self, live: &mut LiveTables, host: &mut ExternHost, added: AddedEntry) {
        let AddedEntry { table, record, generation, profile, added_ns, has_host_state } = added;
        let read = self.program.runtime.written.with_control(table, |written, member| {
            let Some(entry) = member.entry(record) else { return (true, None) };
            let is_same = entry.generation == generation;
            (false, is_same.then(|| (written.codec.decode_key(entry.key), written.codec.decode_value(entry.value))))
        });
        let (key, action) = match read {
            Some((_, Some(entry))) => entry,
            // The control plane has removed the entry since the packet added it.
            Some((true, None)) => return self.end_refused_session(live, host, table, record),
            // Its record is that of a later entry.
            _ => return,
        };
        let timeout_ns = host.expire_time(table, profile);
        match live.record_added_entry(table, key, action, timeout_ns) {
            Some(entry) => host.entry_added((table, record.0), &entry, (added_ns, profile), has_host_state),
            // The control plane has filled the state's table since the packet added the entry.
            None => {
                self.program.runtime.written.with_control(table, |written, member| {
                    written.count_given_up();
                    member.remove_record(record)
                });
                self.end_refused_session(live, host, table, record);
            }
        }
    }

    /// Ends the session of an entry that the control state does not get: its twin is removed, and
    /// its ports are released.
    fn end_refused_session(&self, live: &mut LiveTables, host: &mut ExternHost, table: TableId, record: RecordId) {
        let Some((twin, entry)) = host.session_refused(table, record.0) else { return };
        self.program.runtime.written.with_control(table, |_, member| member.remove_record(RecordId(twin)));
        entry.inspect(|entry| live.record_removed_entry(table, entry));
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
