//! Where each entry lies in the tables of the chip.

use super::parts::Column;
use super::placed::{Placed, PlacedPart, PlacedTable, Split};
use entries::{Change, Entry, EntryError, KeyLayout, State, Update, UpdateKind, WriteBatch, WriteError};
use ir::{Entity, Pipeline, TableId};
use std::collections::BTreeMap;

/// One table.
pub struct Table {
    name: String,
    layout: KeyLayout,
    /// Where its parts are.
    pub placed: PlacedTable,
    /// Its entries, in each of the parallel pipes (one, unless it is split).
    pub columns: Vec<Column>,
}

/// All tables by number; those that are applied nowhere have no parts.
pub struct Store {
    pub tables: Vec<Table>,
}

impl Store {
    /// The tables of a pipeline with the entries of `state`.
    ///
    /// # Errors
    /// These do not fit.
    pub fn new(pipeline: &Pipeline, placed: &Placed, state: &State) -> Result<Store, Box<EntryError>> {
        let table = |(id, declared): (TableId, &ir::Table)| {
            let placed = placed.tables.get(&id).cloned().unwrap_or_default();
            let pipes = placed.split.map_or(1, |split| split.pipes);
            let layout = state.layout(id);
            let column = |_| Column::new(layout, placed.parts.iter().map(|part| part.capacity));
            let columns = (0..pipes).map(column).collect();
            Table { name: declared.preamble.name.clone(), layout: layout.clone(), columns, placed }
        };
        let mut store = Store { tables: pipeline.tables.iter().map(table).collect() };
        for id in pipeline.tables.keys() {
            let mut entries: Vec<&Entry> = state.entries(id).collect();
            entries.sort_by_key(|entry| entry.sequence());
            for entry in entries {
                if !store.insert(id, entry) {
                    return Err(Box::new(store.tables[id.index()].no_room()));
                }
            }
        }
        Ok(store)
    }

    /// Whether all entries have room once the changes of a batch are made.
    ///
    /// # Errors
    /// They have not; nothing has changed.
    pub fn check(&self, changes: &[Change], batch: &WriteBatch) -> Result<(), WriteError> {
        let mut more: BTreeMap<(TableId, usize), i64> = BTreeMap::new();
        let mut count = |table: TableId, entry: &Entry, by: i64| {
            for pipe in self.tables[table.index()].pipes_of(entry) {
                *more.entry((table, pipe)).or_default() += by;
            }
        };
        for change in changes {
            match change {
                Change::Inserted(table, entry, _) => count(*table, entry, 1),
                Change::Deleted(table, entry) => count(*table, entry, -1),
                _ => {}
            }
        }
        for ((id, pipe), more) in more {
            let table = &self.tables[id.index()];
            let column = &table.columns[pipe];
            let placed = !column.parts.is_empty();
            if placed && more > 0 && column.len().saturating_add(more.unsigned_abs()) > column.capacity() {
                let index = first_beyond(batch, id, column.capacity().saturating_sub(column.len()));
                return Err(WriteError { index, error: table.no_room().into() });
            }
        }
        Ok(())
    }

    /// Makes the changes of a batch, which fit in the end.
    pub fn carry_out(&mut self, changes: &[Change]) {
        // Within a batch there may for a moment be more entries than fit: those wait until others
        // are gone.
        let mut waiting: Vec<(TableId, Entry)> = Vec::new();
        let find = |waiting: &[(TableId, Entry)], id: TableId, old: &Entry| {
            waiting.iter().position(|(table, entry)| *table == id && entry.sequence() == old.sequence())
        };
        for change in changes {
            match change {
                Change::Inserted(table, entry, _) if !self.insert(*table, entry) => {
                    waiting.push((*table, entry.clone()));
                }
                Change::Modified(table, old, new, _) => match find(&waiting, *table, old) {
                    Some(at) => waiting[at].1 = new.clone(),
                    None => self.tables[table.index()].replace(old, new),
                },
                Change::Deleted(table, entry) => match find(&waiting, *table, entry) {
                    Some(at) => drop(waiting.remove(at)),
                    None => self.remove(*table, entry),
                },
                _ => {}
            }
        }
        for (table, entry) in waiting {
            self.insert(table, &entry);
        }
    }

    /// Puts an entry into its parts; false, and nothing has changed, if one has no room.
    pub fn insert(&mut self, id: TableId, entry: &Entry) -> bool {
        let table = &mut self.tables[id.index()];
        // A table that is applied nowhere has entries, but no place for them.
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

    /// Takes an entry out.
    pub fn remove(&mut self, id: TableId, entry: &Entry) {
        let Table { layout, columns, .. } = &mut self.tables[id.index()];
        columns.iter_mut().for_each(|column| column.remove(layout, entry));
    }

    /// Whether a table has room for another entry.
    pub fn has_room(&self, table: TableId) -> bool {
        self.tables[table.index()].columns.iter().all(|column| column.len() < column.capacity())
    }

    /// Looks up in one part of a table: the sequence number of an entry. `key`: the match keys'
    /// words one after the other.
    pub fn lookup(&self, id: TableId, pipe: usize, part: usize, key: &[u64]) -> Option<u64> {
        let Table { layout, columns, .. } = &self.tables[id.index()];
        // As in the interpreter: without keys, nothing is hit.
        if layout.fields.is_empty() {
            return None;
        }
        columns.get(pipe)?.parts.get(part)?.lookup(layout, key)
    }
}

impl Table {
    fn no_room(&self) -> EntryError {
        let part = |part: &PlacedPart| format!("{} in pass {}, stage {}", part.capacity, part.pass, part.stage);
        let parts: Vec<String> = self.placed.parts.iter().map(part).collect();
        let capacity = self.columns.first().map_or(0, Column::capacity);
        EntryError::NoRoom { table: self.name.clone(), capacity, parts: parts.join(", ") }
    }

    /// The parallel pipes that an entry is in.
    fn pipes_of(&self, entry: &Entry) -> Vec<usize> {
        let Some(Split { key, by, pipes }) = self.placed.split else { return vec![0] };
        let value = self.layout.fields.iter().find(|field| field.position == key).and_then(|field| {
            let value = field.pattern(entry.key()).only_value(field.width)?;
            Some(by.pipe(value, field.width, pipes) as usize)
        });
        value.map_or_else(|| (0..pipes as usize).collect(), |pipe| vec![pipe])
    }

    fn replace(&mut self, old: &Entry, new: &Entry) {
        let Table { layout, columns, .. } = self;
        columns.iter_mut().for_each(|column| column.replace(layout, old, new));
    }
}

/// The update by which a table gets more entries than there is room for.
fn first_beyond(batch: &WriteBatch, table: TableId, room: u64) -> usize {
    let mut more = 0i64;
    for (index, update) in batch.updates.iter().enumerate() {
        let (kind, of) = match update {
            Update::Entry(kind, entry) => (*kind, entry.table),
            Update::Packed(kind, entry) => (*kind, entry.table),
            _ => continue,
        };
        if of != table {
            continue;
        }
        more += match kind {
            UpdateKind::Insert => 1,
            UpdateKind::Delete => -1,
            UpdateKind::Modify => 0,
        };
        if more > 0 && more.unsigned_abs() > room {
            return index;
        }
    }
    batch.updates.len().saturating_sub(1)
}
