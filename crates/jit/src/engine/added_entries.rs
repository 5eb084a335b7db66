//! Entries that packets have added: their way into the control state.
//!
//! Workers list the entries that they add. Whatever the control plane does next enters them in the
//! control state first, so that it reads, replaces and deletes them like its own.

use super::EngineShared;
use crate::packet_written::{AddedEntry, PacketWrittenTable};
use entries::{PackedKey, StoredEntry};
use flowtable::Member;
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

    /// Enters the entries that packets have added in the control state, and in the host if it keeps
    /// state of them.
    pub(crate) fn record_added_entries(&self, live: &mut LiveTables) {
        let added = self.program.runtime.written.take_added();
        added.into_iter().for_each(|entry| self.record_added_entry(live, entry));
    }

    fn record_added_entry(&self, live: &mut LiveTables, added: AddedEntry) {
        let AddedEntry { table, record, generation, idle_number } = added;
        let read = |written: &PacketWrittenTable, member: &mut Member| {
            // The entry may have ended since, and its record may be that of a later one.
            let entry = member.entry(record).filter(|entry| entry.generation == generation)?;
            let (key, action) = (written.codec.decode_key(entry.key), written.codec.decode_value(entry.value));
            Some((key, action, written.idle_profiles.timeout_ns(idle_number)))
        };
        let runtime = &self.program.runtime;
        let Some((key, action, timeout_ns)) = runtime.written.with_control(table, read).flatten() else { return };
        match live.record_added_entry(table, key, action, timeout_ns) {
            Some(entry) => {
                if runtime.written.get(table).is_some_and(|written| written.has_host_state) {
                    runtime.host.lock().entry_added(table, record.0, &entry);
                }
            }
            // The control plane has filled the state's table since the packet added the entry.
            None => {
                let removed = runtime.written.with_control(table, |written, member| {
                    written.count_given_up();
                    let mut removed = Vec::new();
                    member.remove_record_with(record, |entry| removed.push(written.codec.decode_key(entry.key)));
                    removed
                });
                self.forget_removed(live, table, removed.unwrap_or_default());
            }
        }
    }

    /// Removes entries from the control state because their records are gone.
    pub(super) fn forget_removed(&self, live: &mut LiveTables, table: TableId, keys: Vec<PackedKey>) {
        for key in keys {
            if let Some(entry) = live.state().get_entry(table, key.as_slice(), 0).cloned() {
                live.record_removed_entry(table, &entry);
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
