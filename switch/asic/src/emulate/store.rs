//! Location of each entry in the chip's tables.

use super::memories::TableMemory;
use super::placed::{ParallelSplit, PlacedPart, PlacedTable, PlacementMap};
use entries::{
    ControlState, EntryError, KeyLayout, StateChange, StateUpdate, StoredEntry, UpdateKind, WriteBatch, WriteError,
};
use ir::{Entity, Pipeline, TableId};
use std::collections::BTreeMap;

/// One table of the switch.
pub struct SwitchTable {
    name: String,
    layout: KeyLayout,
    /// Placement of its parts.
    pub placed: PlacedTable,
    /// Its entries, in each of the parallel pipes (one, unless it is split).
    pub columns: Vec<TableMemory>,
}

/// All tables by number. Tables that are never applied have no parts.
pub struct SwitchTables {
    pub tables: Vec<SwitchTable>,
}

impl SwitchTables {
    /// Creates the tables of a pipeline with the entries of `state`.
    ///
    /// # Errors
    /// [`EntryError::ChipFull`]: the entries do not fit.
    pub fn new(
        pipeline: &Pipeline,
        placed: &PlacementMap,
        state: &ControlState,
    ) -> Result<SwitchTables, Box<EntryError>> {
        let switch_table = |(id, declared): (TableId, &ir::Table)| {
            let placed = placed.tables.get(&id).cloned().unwrap_or_default();
            let pipes = placed.split.map_or(1, |split| split.pipes);
            let layout = state.layout(id);
            let new_column = |_| TableMemory::new(layout, placed.parts.iter().map(|part| part.capacity));
            let columns = (0..pipes).map(new_column).collect();
            SwitchTable { name: declared.preamble.name.clone(), layout: layout.clone(), columns, placed }
        };
        let mut store = SwitchTables { tables: pipeline.tables.iter().map(switch_table).collect() };
        for id in pipeline.tables.keys() {
            let mut entries: Vec<&StoredEntry> = state.entries(id).collect();
            entries.sort_by_key(|entry| entry.sequence());
            for entry in entries {
                if !store.insert(id, entry) {
                    return Err(Box::new(store.tables[id.index()].no_room_error()));
                }
            }
        }
        Ok(store)
    }

    /// Checks that all entries fit after the changes of a batch.
    ///
    /// # Errors
    /// [`WriteError`]: they do not fit. The tables are unchanged.
    pub fn check_capacity(&self, changes: &[StateChange], batch: &WriteBatch) -> Result<(), WriteError> {
        let mut added: BTreeMap<(TableId, usize), i64> = BTreeMap::new();
        let mut count = |table: TableId, entry: &StoredEntry, delta: i64| {
            for pipe in self.tables[table.index()].pipes_of(entry) {
                *added.entry((table, pipe)).or_default() += delta;
            }
        };
        for change in changes {
            match change {
                StateChange::Inserted(table, entry, _) => count(*table, entry, 1),
                StateChange::Deleted(table, entry) => count(*table, entry, -1),
                _ => {}
            }
        }
        for ((id, pipe), added) in added {
            let table = &self.tables[id.index()];
            let column = &table.columns[pipe];
            let is_placed = !column.parts.is_empty();
            if is_placed && added > 0 && column.len().saturating_add(added.unsigned_abs()) > column.capacity() {
                let index = first_excess_update(batch, id, column.capacity().saturating_sub(column.len()));
                return Err(WriteError { index, error: table.no_room_error().into() });
            }
        }
        Ok(())
    }

    /// Applies the changes of a batch. The final state must fit.
    pub fn apply_changes(&mut self, changes: &[StateChange]) {
        // Within a batch, the entries can temporarily exceed the capacity. The excess waits until
        // others are removed.
        let mut waiting: Vec<(TableId, StoredEntry)> = Vec::new();
        let position_in = |waiting: &[(TableId, StoredEntry)], id: TableId, old: &StoredEntry| {
            waiting.iter().position(|(table, entry)| *table == id && entry.sequence() == old.sequence())
        };
        for change in changes {
            match change {
                StateChange::Inserted(table, entry, _) if !self.insert(*table, entry) => {
                    waiting.push((*table, entry.clone()));
                }
                StateChange::Modified(table, old, new, _) => match position_in(&waiting, *table, old) {
                    Some(index) => waiting[index].1 = new.clone(),
                    None => self.tables[table.index()].replace_entry(old, new),
                },
                StateChange::Deleted(table, entry) => match position_in(&waiting, *table, entry) {
                    Some(index) => drop(waiting.remove(index)),
                    None => self.remove(*table, entry),
                },
                _ => {}
            }
        }
        for (table, entry) in waiting {
            self.insert(table, &entry);
        }
    }

    /// Inserts an entry into its parts. Returns false, without changes, if one lacks capacity.
    pub fn insert(&mut self, id: TableId, entry: &StoredEntry) -> bool {
        let table = &mut self.tables[id.index()];
        // A table that is never applied has entries, but no parts.
        if table.placed.parts.is_empty() {
            return true;
        }
        let pipes = table.pipes_of(entry);
        for (done, pipe) in pipes.iter().enumerate() {
            if !table.columns[*pipe].insert(&table.layout, entry) {
                pipes[..done].iter().for_each(|pipe| table.columns[*pipe].remove(&table.layout, entry));
                return false;
            }
        }
        true
    }

    /// Removes an entry.
    pub fn remove(&mut self, id: TableId, entry: &StoredEntry) {
        let SwitchTable { layout, columns, .. } = &mut self.tables[id.index()];
        columns.iter_mut().for_each(|column| column.remove(layout, entry));
    }

    /// Returns whether a table can hold another entry.
    pub fn has_room(&self, table: TableId) -> bool {
        self.tables[table.index()].columns.iter().all(|column| column.len() < column.capacity())
    }

    /// Looks up a key in one part of a table. Returns the sequence number of an entry. `key` has
    /// the words of the match keys in sequence.
    pub fn lookup(&self, id: TableId, pipe: usize, part: usize, key: &[u64]) -> Option<u64> {
        let SwitchTable { layout, columns, .. } = &self.tables[id.index()];
        // As in the interpreter, a table without keys never hits.
        if layout.fields.is_empty() {
            return None;
        }
        columns.get(pipe)?.parts.get(part)?.lookup(layout, key)
    }
}

impl SwitchTable {
    fn no_room_error(&self) -> EntryError {
        let part = |part: &PlacedPart| format!("{} in pass {}, stage {}", part.capacity, part.pass, part.stage);
        let parts: Vec<String> = self.placed.parts.iter().map(part).collect();
        let capacity = self.columns.first().map_or(0, TableMemory::capacity);
        EntryError::ChipFull { table: self.name.clone(), capacity, parts: parts.join(", ") }
    }

    /// Returns the parallel pipes that store an entry.
    fn pipes_of(&self, entry: &StoredEntry) -> Vec<usize> {
        let Some(ParallelSplit { key, by, pipes }) = self.placed.split else { return vec![0] };
        let value = self.layout.fields.iter().find(|field| field.position == key).and_then(|field| {
            let value = field.pattern(entry.key()).only_value(field.width)?;
            Some(by.pipe_of(value, field.width, pipes) as usize)
        });
        value.map_or_else(|| (0..pipes as usize).collect(), |pipe| vec![pipe])
    }

    fn replace_entry(&mut self, old: &StoredEntry, new: &StoredEntry) {
        let SwitchTable { layout, columns, .. } = self;
        columns.iter_mut().for_each(|column| column.replace(layout, old, new));
    }
}

/// Returns the index of the update that exceeds a table's capacity.
fn first_excess_update(batch: &WriteBatch, table: TableId, free_entries: u64) -> usize {
    let mut added = 0i64;
    for (index, update) in batch.updates.iter().enumerate() {
        let (kind, updated_table) = match update {
            StateUpdate::Entry(kind, entry) => (*kind, entry.table),
            StateUpdate::Packed(kind, entry) => (*kind, entry.table),
            _ => continue,
        };
        if updated_table != table {
            continue;
        }
        added += match kind {
            UpdateKind::Insert => 1,
            UpdateKind::Delete => -1,
            UpdateKind::Modify => 0,
        };
        if added > 0 && added.unsigned_abs() > free_entries {
            return index;
        }
    }
    batch.updates.len().saturating_sub(1)
}
