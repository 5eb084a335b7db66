//! What packets change in a pipeline while its tables are on their way to another process: entries that the data plane adds or that grow too old, counters,
//! registers.

use crate::device::values;
use crate::engine::Controlled;
use crate::reconcile::Matching;
use entries::{Counter, Entry, EntryId, PackedEntry, State, Update, UpdateKind, WriteBatch};
use ir::TableId;

/// Updates in one batch.
const BATCH: usize = 4096;

/// The writes that lead from a state to a later one of the same pipeline, between which only packets and time have changed something; and, at the end,
/// the values of all counters and registers that are not zero.
pub fn since(earlier: &State, engine: &dyn Controlled) -> Vec<WriteBatch> {
    let now = engine.with_state(State::clone);
    let mut updates = Vec::new();
    let pipeline = now.pipeline().clone();
    for (table, about) in pipeline.tables.iter() {
        if now.version() != earlier.version() && (about.add_on_miss || about.idle_timeout) {
            entries(table, earlier, &now, &mut updates);
        }
    }
    for table in pipeline.tables.keys() {
        counted(table, &now, engine, &mut updates);
    }
    updates.extend(values(engine, &Matching::new(&pipeline, &pipeline)));
    let mut batches = Vec::new();
    let mut updates = updates.into_iter().peekable();
    while updates.peek().is_some() {
        batches.push(updates.by_ref().take(BATCH).collect());
    }
    batches
}

/// Entries of a table that came or went.
fn entries(table: TableId, earlier: &State, now: &State, updates: &mut Vec<Update>) {
    for entry in earlier.entries(table) {
        if now.find(table, entry.key(), entry.priority()).is_none() {
            updates.push(update(UpdateKind::Delete, table, entry));
        }
    }
    let packed = |entry: &Entry| PackedEntry::of(UpdateKind::Modify, table, entry);
    let mut new: Vec<(&Entry, UpdateKind)> = Vec::new();
    for entry in now.entries(table) {
        match earlier.find(table, entry.key(), entry.priority()) {
            None => new.push((entry, UpdateKind::Insert)),
            Some(old) if packed(old) != packed(entry) => new.push((entry, UpdateKind::Modify)),
            Some(_) => {}
        }
    }
    // Of two entries that match, the older one wins.
    new.sort_by_key(|(entry, _)| entry.sequence());
    updates.extend(new.into_iter().map(|(entry, kind)| update(kind, table, entry)));
}

fn update(kind: UpdateKind, table: TableId, entry: &Entry) -> Update {
    Update::Packed(kind, PackedEntry::of(kind, table, entry))
}

/// Direct counters of a table that have counted.
fn counted(table: TableId, now: &State, engine: &dyn Controlled, updates: &mut Vec<Update>) {
    let mut entries = now.entries(table).peekable();
    // All entries of a table have counters, or none.
    if entries.peek().is_none_or(|entry| engine.entry_counter(table, entry).is_none()) {
        return;
    }
    let layout = now.layout(table);
    for entry in entries {
        let Some(data) = engine.entry_counter(table, entry).filter(|data| *data != Counter::default()) else {
            continue;
        };
        updates.push(Update::DirectCounter(EntryId::of(layout, table, entry), data));
    }
}
