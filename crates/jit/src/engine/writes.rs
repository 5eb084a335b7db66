//! Writes to the tables and objects that the workers of an engine share.

use super::EngineShared;
use entries::{Counter, PackedKey, StateChange, StoredEntry, WriteBatch, WriteError};
use interp::host::ExternHost;
use ir::{Entity, TableId};
use lookup::{AppliedWrite, LiveTables};
use std::collections::HashMap;

impl EngineShared {
    pub(crate) fn write(
        &self,
        batch: &WriteBatch,
        mut note: impl FnMut(&StateChange, Option<u32>),
    ) -> Result<(), WriteError> {
        let mut live = self.live.lock();
        self.record_named_entries(&mut live, std::slice::from_ref(batch));
        let written = live.write(batch)?;
        written.changes_with_ids().for_each(|(change, number)| note(change, number));
        self.carry_out(&mut live, &written);
        Ok(())
    }

    pub(super) fn write_many(&self, batches: &[WriteBatch]) -> Vec<Result<(), WriteError>> {
        let mut live = self.live.lock();
        self.record_named_entries(&mut live, batches);
        let outcomes = live.write_batches(batches);
        let done =
            |outcome: Result<AppliedWrite, WriteError>| outcome.map(|written| self.carry_out(&mut live, &written));
        outcomes.into_iter().map(done).collect()
    }

    /// Applies batches of writes to an engine without packets, for a fast start: all lookup
    /// structures are built once at the end. `counter_values` holds those of direct counters by the
    /// sequence number of their entry, because ids exist only then. Returns the first error;
    /// batches before it are applied.
    pub(super) fn load<E>(&self, mut batches: &mut dyn Iterator<Item = Result<WriteBatch, E>>) -> Result<(), E> {
        let mut live = self.live_with_added_entries();
        let mut host = self.host_at_latest_time();
        let mut state = live.state().clone();
        let mut counter_values: HashMap<(TableId, u64), Counter> = HashMap::new();
        let outcome = Iterator::try_for_each(&mut batches, |batch| {
            batch?.apply_accepted(|batch| {
                let changes = state.apply(batch)?;
                host.apply_changes(&changes, &state);
                for change in &changes {
                    match change {
                        StateChange::Inserted(table, entry, data)
                        | StateChange::Modified(table, _, entry, Some(data))
                        | StateChange::DirectCounter(table, entry, data)
                            if *data != Counter::default() =>
                        {
                            counter_values.insert((*table, entry.sequence()), *data);
                        }
                        StateChange::Counter(counter, index, data) => self.set_counter(*counter, *index, *data),
                        _ => {}
                    }
                }
                Ok(())
            });
            Ok(())
        });
        // `LiveTables` refuses a pipeline when the engine is made, so a state of it fits here.
        let records = self.entries.is_some();
        let tables = &self.program.runtime.written;
        let is_written: Vec<bool> = self.pipeline.tables.keys().map(|table| tables.get(table).is_some()).collect();
        let entry_ids = |t: TableId| !is_written[t.index()] && (records || host.tracks_entries(t));
        let Ok(loaded) = LiveTables::with_tables_elsewhere(state, entry_ids, &is_written) else { return outcome };
        self.pipeline.tables.keys().for_each(|table| tables.clear(table));
        *live = loaded;
        tables.update_profiles(&host);
        if let Some(entries) = &self.entries {
            entries.lock().rebuild(&self.pipeline, &live);
        }
        for (table, entry) in self.pipeline.tables.keys().flat_map(|t| live.state().entries(t).map(move |e| (t, e))) {
            let number = match tables.get(table) {
                Some(written) => tables.restore(table, entry).filter(|_| written.has_host_state),
                None => live.entry_id(table, entry).filter(|_| host.tracks_entries(table)),
            };
            if let Some(entry_id) = number {
                let counter_value = counter_values.get(&(table, entry.sequence())).copied().unwrap_or_default();
                host.entry_inserted(table, entry_id, entry, counter_value);
            }
        }
        outcome
    }

    /// Applies written changes to counters, meters and other externs. A change has an entry id only
    /// if the engine needs it for the entry's table.
    fn carry_out(&self, live: &mut LiveTables, written: &AppliedWrite) {
        if let Some(entries) = &self.entries {
            let mut entries = entries.lock();
            written.changes_with_ids().for_each(|(change, entry_id)| entries.apply_change(change, entry_id));
        }
        let mut host = self.host_at_latest_time();
        host.apply_changes(written.changes(), live.state());
        if written.changes().iter().any(|change| matches!(change, StateChange::ExpireTime(_))) {
            self.program.runtime.written.update_profiles(&host);
        }
        let mut displaced = Vec::new();
        for (change, entry_id) in written.changes_with_ids() {
            if self.carry_out_in_written_table(&mut host, change, &mut displaced) {
                continue;
            }
            match (change, entry_id) {
                // An engine that records has entry ids for other tables too.
                (StateChange::Inserted(table, entry, counter), Some(entry_id)) if host.tracks_entries(*table) => {
                    host.entry_inserted(*table, entry_id, entry, *counter);
                }
                (StateChange::Modified(table, old, new, counter), Some(entry_id)) => {
                    host.entry_modified(*table, entry_id, old, new, *counter);
                }
                (StateChange::Deleted(table, _), Some(entry_id)) => host.entry_removed(*table, entry_id),
                (StateChange::DirectCounter(table, entry, data), entry_id) => {
                    if let Some(entry_id) = entry_id.or_else(|| self.number_in(live, *table, entry)) {
                        host.set_direct_counter(*table, entry_id, *data);
                    }
                }
                (StateChange::Counter(counter, index, data), _) => self.set_counter(*counter, *index, *data),
                _ => {}
            }
        }
        drop(host);
        for (table, key) in displaced {
            self.forget_removed(live, table, vec![key]);
        }
    }

    /// Applies a change of an entry to a table that packets write. Returns false for another
    /// change. `displaced` collects keys of entries that the state gives up: those that have no room
    /// because packets have filled the table since the state accepted the change (the table counts
    /// the refusal), and twins of removed ones.
    fn carry_out_in_written_table(
        &self,
        host: &mut ExternHost,
        change: &StateChange,
        displaced: &mut Vec<(TableId, PackedKey)>,
    ) -> bool {
        let tables = &self.program.runtime.written;
        let Some((table, entry)) = change.entry() else { return false };
        let Some(has_host_state) = tables.get(table).map(|written| written.has_host_state) else { return false };
        let displace = |displaced: &mut Vec<_>| displaced.push((table, PackedKey::from_slice(entry.key())));
        match change {
            StateChange::Inserted(_, _, counter) => match tables.insert(table, entry) {
                Ok(number) if has_host_state => host.entry_inserted(table, number, entry, *counter),
                Ok(_) => {}
                Err(_) => displace(displaced),
            },
            StateChange::Modified(_, old, new, counter) => match tables.modify(table, old, new) {
                Ok([before, after]) if has_host_state => {
                    host.entry_renumbered(table, before, after);
                    host.entry_modified(table, after, old, new, *counter);
                }
                Ok(_) => {}
                Err(_) => {
                    displace(displaced);
                    self.remove_written_entry(host, (table, old), displaced);
                }
            },
            StateChange::Deleted(..) => self.remove_written_entry(host, (table, entry), displaced),
            _ => {}
        }
        true
    }

    /// Removes an entry from a table that packets write, and its twin. The twin's key is added to
    /// `displaced`.
    pub(crate) fn remove_written_entry(
        &self,
        host: &mut ExternHost,
        (table, entry): (TableId, &StoredEntry),
        displaced: &mut Vec<(TableId, PackedKey)>,
    ) {
        for (number, key) in self.program.runtime.written.remove(table, entry) {
            host.entry_removed(table, number);
            if key.as_slice() != entry.key() {
                displaced.push((table, key));
            }
        }
    }
}
