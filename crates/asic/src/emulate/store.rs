//! The tables of the chip: what the control plane has written, and where each entry lies.

use super::parts::{Column, exact_key};
use super::placed::{Placed, PlacedTable, Split};
use interp::host::ExternHost;
use ir::{Entity, Pipeline, TableId};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use tables::{
    Change, Counter, Entry, EntryError, PackedAction, PackedKey, State, Update, UpdateKind, WriteBatch, WriteError,
};

/// One table.
pub struct Table {
    /// Where its parts are.
    pub placed: PlacedTable,
    /// Its entries, in each of the parallel pipes (one, unless it is split).
    pub columns: Vec<Column>,
    /// Entries by number.
    pub entries: Vec<Option<Entry>>,
    free: Vec<u32>,
    numbers: HashMap<(PackedKey, i32), u32>,
    /// Packets and bytes for each action in the order of the table's list: without a hit, with a hit.
    pub applied: Vec<[Counter; 2]>,
}

/// All tables, and what the control plane has said.
pub struct Store {
    /// What the control plane has said.
    pub state: State,
    /// The tables by number; those that are applied nowhere have no parts.
    pub tables: Vec<Table>,
}

impl Store {
    /// The tables of a pipeline with the program's own entries.
    ///
    /// # Errors
    /// The program's own entries do not fit.
    pub fn new(
        pipeline: &Arc<Pipeline>,
        placed: &Placed,
        state: State,
        host: &mut ExternHost,
    ) -> Result<Store, Box<EntryError>> {
        let table = |(id, declared): (TableId, &ir::Table)| {
            let placed = placed.tables.get(&id).cloned().unwrap_or_default();
            let pipes = placed.split.map_or(1, |split| split.pipes);
            let layout = state.layout(id);
            let column = |_| Column::new(layout, placed.parts.iter().map(|part| part.capacity));
            Table {
                columns: (0..pipes).map(column).collect(),
                placed,
                entries: Vec::new(),
                free: Vec::new(),
                numbers: HashMap::new(),
                applied: vec![Default::default(); declared.actions.len()],
            }
        };
        let tables = pipeline.tables.iter().map(table).collect();
        let mut store = Store { state, tables };
        for id in pipeline.tables.keys() {
            let mut entries: Vec<Entry> = store.state.entries(id).cloned().collect();
            entries.sort_by_key(Entry::sequence);
            for entry in entries {
                if !store.insert(host, id, &entry, Counter::default()) {
                    return Err(Box::new(store.no_room(id)));
                }
            }
        }
        Ok(store)
    }

    /// Applies a batch as a whole.
    ///
    /// # Errors
    /// An update is not valid, or the entries that there would be do not fit; nothing has changed.
    pub fn write(&mut self, host: &mut ExternHost, batch: &WriteBatch) -> Result<Vec<Change>, WriteError> {
        let mut next = self.state.clone();
        let changes = next.apply(batch)?;
        self.fits(&changes, batch)?;
        self.state = next;
        host.carry_out(&changes, &self.state);
        // Within a batch there may for a moment be more entries than fit: those wait until others are gone.
        let mut waiting = Vec::new();
        for change in &changes {
            match change {
                Change::Inserted(table, entry, counter) if !self.insert(host, *table, entry, *counter) => {
                    waiting.push((*table, entry.clone(), *counter));
                }
                Change::Modified(table, old, new, counter) => match self.number(*table, old) {
                    Some(number) => self.replace(host, *table, number, old, new, *counter),
                    None => replace_waiting(&mut waiting, *table, old, Some(new), *counter),
                },
                Change::Deleted(table, entry) => match self.number(*table, entry) {
                    Some(_) => self.remove(host, *table, entry),
                    None => replace_waiting(&mut waiting, *table, entry, None, None),
                },
                Change::DirectCounter(table, entry, data) => match self.number(*table, entry) {
                    Some(number) => host.set_direct_counter(*table, number, *data),
                    None => replace_waiting(&mut waiting, *table, entry, Some(entry), Some(*data)),
                },
                _ => {}
            }
        }
        for (table, entry, counter) in waiting {
            self.insert(host, table, &entry, counter);
        }
        Ok(changes)
    }

    /// Whether all entries have room once the changes are made.
    fn fits(&self, changes: &[Change], batch: &WriteBatch) -> Result<(), WriteError> {
        let mut more: BTreeMap<(TableId, usize), i64> = BTreeMap::new();
        let mut count = |table: TableId, entry: &Entry, by: i64| {
            for pipe in self.pipes_of(table, entry) {
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
        for ((table, pipe), more) in more {
            let column = &self.tables[table.index()].columns[pipe];
            let placed = !column.parts.is_empty();
            if placed && more > 0 && column.len().saturating_add(more.unsigned_abs()) > column.capacity() {
                let index = first_beyond(batch, table, column.capacity().saturating_sub(column.len()));
                return Err(WriteError { index, error: self.no_room(table).into() });
            }
        }
        Ok(())
    }

    fn no_room(&self, id: TableId) -> EntryError {
        let table = &self.tables[id.index()];
        let part =
            |part: &super::placed::PlacedPart| format!("{} in pass {}, stage {}", part.capacity, part.pass, part.stage);
        let parts: Vec<String> = table.placed.parts.iter().map(part).collect();
        let name = self.state.pipeline().tables[id].preamble.name.clone();
        let capacity = table.columns.first().map_or(0, Column::capacity);
        EntryError::NoRoom { table: name, capacity, parts: parts.join(", ") }
    }

    /// The parallel pipes that an entry is in.
    fn pipes_of(&self, table: TableId, entry: &Entry) -> Vec<usize> {
        let Some(Split { key, by, pipes }) = self.tables[table.index()].placed.split else { return vec![0] };
        let layout = self.state.layout(table);
        let value = layout.fields.iter().find(|field| field.position == key).and_then(|field| {
            let value = field.pattern(entry.key()).only_value(field.width)?;
            Some(by.pipe(value, field.width, pipes) as usize)
        });
        value.map_or_else(|| (0..pipes as usize).collect(), |pipe| vec![pipe])
    }

    /// The number of an entry that is in the table.
    pub fn number(&self, table: TableId, entry: &Entry) -> Option<u32> {
        self.tables[table.index()].numbers.get(&(PackedKey::from_slice(entry.key()), entry.priority())).copied()
    }

    /// Puts an entry into its parts; false, and nothing has changed, if one has no room.
    fn insert(&mut self, host: &mut ExternHost, id: TableId, entry: &Entry, counter: Counter) -> bool {
        let pipes = self.pipes_of(id, entry);
        let layout = self.state.layout(id).clone();
        let table = &mut self.tables[id.index()];
        let number = table.free.pop().unwrap_or(table.entries.len() as u32);
        // A table that is applied nowhere has entries, but no place for them.
        if !table.placed.parts.is_empty() {
            for (done, pipe) in pipes.iter().enumerate() {
                if !table.columns[*pipe].insert(&layout, number, entry) {
                    pipes[..done].iter().for_each(|pipe| table.columns[*pipe].remove(&layout, entry));
                    if (number as usize) < table.entries.len() {
                        table.free.push(number);
                    }
                    return false;
                }
            }
        }
        if number as usize == table.entries.len() {
            table.entries.push(None);
        }
        table.entries[number as usize] = Some(entry.clone());
        table.numbers.insert((PackedKey::from_slice(entry.key()), entry.priority()), number);
        host.entry_inserted(id, number, entry, counter);
        true
    }

    fn replace(
        &mut self,
        host: &mut ExternHost,
        id: TableId,
        number: u32,
        old: &Entry,
        new: &Entry,
        counter: Option<Counter>,
    ) {
        let layout = self.state.layout(id).clone();
        let table = &mut self.tables[id.index()];
        table.entries[number as usize] = Some(new.clone());
        table.columns.iter_mut().for_each(|column| column.replace(&layout, old, number, new));
        host.entry_modified(id, number, old, new, counter);
    }

    fn remove(&mut self, host: &mut ExternHost, id: TableId, entry: &Entry) {
        let layout = self.state.layout(id).clone();
        let table = &mut self.tables[id.index()];
        table.columns.iter_mut().for_each(|column| column.remove(&layout, entry));
        if let Some(number) = table.numbers.remove(&(PackedKey::from_slice(entry.key()), entry.priority())) {
            table.entries[number as usize] = None;
            table.free.push(number);
            host.entry_removed(id, number);
        }
    }

    /// Whether a table has room for an entry with this key.
    pub fn has_room(&self, table: TableId) -> bool {
        self.tables[table.index()].columns.iter().all(|column| column.len() < column.capacity())
    }

    /// An entry that a packet added: `state` has it already.
    pub fn added(&mut self, host: &mut ExternHost, table: TableId, entry: &Entry) -> bool {
        self.insert(host, table, entry, Counter::default())
    }

    /// An entry whose idle time has passed: `state` does not have it any more.
    pub fn expired(&mut self, host: &mut ExternHost, table: TableId, entry: &Entry) {
        self.remove(host, table, entry);
    }

    /// Looks up in one part of a table. `key`: the match keys' words one after the other.
    pub fn lookup(&self, id: TableId, pipe: usize, part: usize, key: &[u64]) -> Option<u32> {
        let layout = self.state.layout(id);
        // As in the interpreter: without keys, nothing is hit.
        if layout.fields.is_empty() {
            return None;
        }
        self.tables[id.index()].columns.get(pipe)?.parts.get(part)?.lookup(layout, key)
    }

    /// What a lookup leads to: the entry that counts as hit, the position of the action in the table's list, its arguments as words. `hash` gives the hash
    /// by which a selector chooses.
    pub fn resolve(
        &self,
        host: &ExternHost,
        id: TableId,
        hit: Option<u32>,
        hash: impl FnOnce(&ExternHost) -> u64,
    ) -> (Option<u32>, usize, Vec<u64>) {
        let arm = |action: ir::ActionId| {
            let listed = &self.state.pipeline().tables[id].actions;
            listed.iter().position(|listed| listed.action == action).unwrap_or(0)
        };
        let entry = hit.and_then(|number| self.tables[id.index()].entries.get(number as usize)?.as_ref());
        let default = self.state.default_action(id).packed();
        let member = match entry.map_or(default, Entry::action) {
            PackedAction::Call(action, args) => return (hit, arm(action), args.to_vec()),
            PackedAction::Member(member) => host.member(id, member),
            PackedAction::Group(group) => host.group_member(id, group, hash(host)),
        };
        // A group without members, or a member that is gone, counts as a miss.
        match (member, default) {
            (Some(member), _) => (hit, member.arm as usize, member.args.to_vec()),
            (None, PackedAction::Call(action, args)) => (None, arm(action), args.to_vec()),
            (None, _) => (None, 0, Vec::new()),
        }
    }

    /// Counts a packet for an action.
    pub fn count(&mut self, id: TableId, arm: usize, hit: bool, bytes: u64) {
        if let Some(counts) = self.tables[id.index()].applied.get_mut(arm) {
            let counter = &mut counts[usize::from(hit)];
            counter.packets = counter.packets.wrapping_add(1);
            counter.bytes = counter.bytes.wrapping_add(bytes);
        }
    }

    /// The key that an entry for exactly these values has.
    pub fn packed_key(&self, id: TableId, key: &[u64]) -> PackedKey {
        exact_key(self.state.layout(id), key)
    }
}

/// An entry that waits for room is another one, or gone, or has another counter.
fn replace_waiting(
    waiting: &mut Vec<(TableId, Entry, Counter)>,
    table: TableId,
    old: &Entry,
    new: Option<&Entry>,
    counter: Option<Counter>,
) {
    let Some(at) = waiting.iter().position(|(t, entry, _)| *t == table && entry.sequence() == old.sequence()) else {
        return;
    };
    match new {
        Some(new) => {
            waiting[at].1 = new.clone();
            waiting[at].2 = counter.unwrap_or(waiting[at].2);
        }
        None => drop(waiting.remove(at)),
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
