//! Changes made by packets and time while the tables are transferred to another process: entries
//! added by the data plane or expired, counters, registers.

use crate::device::extern_value_updates;
use crate::engine::EngineControl;
use crate::migrate::PipelineMapping;
use entries::{ControlState, Counter, EntryId, PackedEntry, StateUpdate, StoredEntry, UpdateKind, WriteBatch};
use ir::TableId;

/// Maximum number of updates in one batch.
const BATCH: usize = 4096;

/// Returns the writes that convert an earlier state to the current one of the same pipeline, if
/// only packets and time have changed it. At the end, adds the non-zero values of all counters and
/// registers.
pub fn changes_since(earlier: &ControlState, engine: &dyn EngineControl) -> Vec<WriteBatch> {
    let now = engine.with_state(ControlState::clone);
    let mut updates = Vec::new();
    let pipeline = now.pipeline().clone();
    for (table, about) in pipeline.tables.iter() {
        if now.version() != earlier.version() && (about.add_on_miss || about.idle_timeout) {
            entry_changes(table, earlier, &now, &mut updates);
        }
    }
    for table in pipeline.tables.keys() {
        direct_counter_updates(table, &now, engine, &mut updates);
    }
    updates.extend(extern_value_updates(engine, &PipelineMapping::new(&pipeline, &pipeline)));
    let mut batches = Vec::new();
    let mut updates = updates.into_iter().peekable();
    while updates.peek().is_some() {
        batches.push(updates.by_ref().take(BATCH).collect());
    }
    batches
}

/// Adds the inserted, modified and removed entries of a table.
fn entry_changes(table: TableId, earlier: &ControlState, now: &ControlState, updates: &mut Vec<StateUpdate>) {
    for entry in earlier.entries(table) {
        if now.get_entry(table, entry.key(), entry.priority()).is_none() {
            updates.push(packed_update(UpdateKind::Delete, table, entry));
        }
    }
    let packed = |entry: &StoredEntry| PackedEntry::from_stored(UpdateKind::Modify, table, entry);
    let mut new: Vec<(&StoredEntry, UpdateKind)> = Vec::new();
    for entry in now.entries(table) {
        match earlier.get_entry(table, entry.key(), entry.priority()) {
            None => new.push((entry, UpdateKind::Insert)),
            Some(old) if packed(old) != packed(entry) => new.push((entry, UpdateKind::Modify)),
            Some(_) => {}
        }
    }
    // Keeps the insertion order, because of two matching entries the older one wins.
    new.sort_by_key(|(entry, _)| entry.sequence());
    updates.extend(new.into_iter().map(|(entry, kind)| packed_update(kind, table, entry)));
}

fn packed_update(kind: UpdateKind, table: TableId, entry: &StoredEntry) -> StateUpdate {
    StateUpdate::Packed(kind, PackedEntry::from_stored(kind, table, entry))
}

/// Adds the non-zero direct counters of a table.
fn direct_counter_updates(
    table: TableId,
    now: &ControlState,
    engine: &dyn EngineControl,
    updates: &mut Vec<StateUpdate>,
) {
    let mut entries = now.entries(table).peekable();
    // Either all entries of a table have counters, or none.
    if entries.peek().is_none_or(|entry| engine.entry_counter(table, entry).is_none()) {
        return;
    }
    let layout = now.layout(table);
    for entry in entries {
        let Some(data) = engine.entry_counter(table, entry).filter(|data| *data != Counter::default()) else {
            continue;
        };
        updates.push(StateUpdate::DirectCounter(EntryId::from_stored(layout, table, entry), data));
    }
}
