//! Entries that packets have added, and the control state.
//!
//! The control state has the entries of the control plane. An entry of a packet is entered when the
//! control plane names it in a write, so that it is replaced and deleted like its own. All of them
//! are entered for a snapshot of everything, such as a take-over.

use super::EngineShared;
use super::flow_tables::READ_RECORDS;
use crate::packet_written::PacketWrittenTable;
use entries::{PackedKey, StateUpdate, StoredEntry, WriteBatch};
use flowtable::Member;
use ir::{KeyMatch, TableId};
use lookup::LiveTables;
use parking_lot::MutexGuard;

impl EngineShared {
    /// Returns the tables, with all entries in the control state that packets have added.
    pub(crate) fn live_with_added_entries(&self) -> MutexGuard<'_, LiveTables> {
        let mut live = self.live.lock();
        for table in self.pipeline.tables.keys() {
            let mut cursor = Some(1);
            while let Some(first) = cursor {
                let read = |written: &PacketWrittenTable, member: &mut Member| {
                    let mut found = Vec::new();
                    let next = member.read(first, READ_RECORDS, |entry| found.push(written.stored_entry(&entry)));
                    (found, next)
                };
                let Some((found, next)) = self.program.runtime.written.with_control(table, read) else { break };
                found.iter().for_each(|entry| record_entry(&mut live, table, entry));
                cursor = next;
            }
        }
        live
    }

    /// Enters the entries of packets in the control state that batches name, and how many others
    /// there are, because they count for the sizes of tables.
    pub(super) fn record_named_entries(&self, live: &mut LiveTables, batches: &[WriteBatch]) {
        let written = &self.program.runtime.written;
        if written.is_empty() {
            return;
        }
        for update in batches.iter().flat_map(|batch| &batch.updates) {
            let named = named_entry(live, update, |table| written.get(table).is_some());
            if let Some((table, key)) = named
                && let Some(entry) = written.find_entry(table, &key)
            {
                record_entry(live, table, &entry);
            }
        }
        for table in self.pipeline.tables.keys() {
            if let Some(table_entries) = written.get(table).map(|written| written.flows.count()) {
                let known = live.state().entry_count(table) as u64;
                live.set_entries_elsewhere(table, table_entries.saturating_sub(known));
            }
        }
    }

    /// Removes entries from the control state because their records are gone.
    pub(crate) fn forget_removed(&self, live: &mut LiveTables, table: TableId, keys: Vec<PackedKey>) {
        for key in keys {
            if let Some(entry) = live.state().get_entry(table, key.as_slice(), 0).cloned() {
                live.record_removed_entry(table, &entry);
            }
        }
    }

    /// Returns the number of an entry under which the host keeps its state; `None` if it keeps
    /// none.
    pub(crate) fn entry_number(&self, table: TableId, entry: &StoredEntry) -> Option<u32> {
        self.number_in(&self.live.lock(), table, entry)
    }

    /// Does what [`EngineShared::entry_number`] does with tables that the caller has locked.
    pub(crate) fn number_in(&self, live: &LiveTables, table: TableId, entry: &StoredEntry) -> Option<u32> {
        match self.program.runtime.written.get(table) {
            Some(_) => self.program.runtime.written.entry_number(table, entry),
            None => live.entry_id(table, entry),
        }
    }
}

/// Enters an entry of a packet in the control state, or its present idle timeout if it is there.
fn record_entry(live: &mut LiveTables, table: TableId, entry: &StoredEntry) {
    match live.state().get_entry(table, entry.key(), 0) {
        Some(known) if known.idle_timeout_ns() == entry.idle_timeout_ns() => {}
        Some(_) => live.record_idle_timeout(table, entry.key(), entry.idle_timeout_ns()),
        None => {
            let (key, timeout_ns) = (PackedKey::from_slice(entry.key()), entry.idle_timeout_ns());
            live.record_added_entry(table, key, entry.action().to_action(), timeout_ns);
        }
    }
}

/// Returns table and packed key of the entry that an update names, if `is_written` accepts its table.
fn named_entry(
    live: &LiveTables,
    update: &StateUpdate,
    is_written: impl Fn(TableId) -> bool,
) -> Option<(TableId, PackedKey)> {
    let layout = |table: TableId| is_written(table).then(|| live.state().layout(table));
    let pack = |table: TableId, keys: &[KeyMatch]| Some((table, layout(table)?.pack(keys).ok()?));
    match update {
        StateUpdate::Entry(_, entry) => pack(entry.table, &entry.keys),
        StateUpdate::Packed(_, entry) => {
            let is_valid = entry.key().len() == layout(entry.table)?.len;
            is_valid.then(|| (entry.table, PackedKey::from_slice(entry.key())))
        }
        StateUpdate::DirectMeter(id, _) | StateUpdate::DirectCounter(id, _) => pack(id.table, &id.keys),
        _ => None,
    }
}
