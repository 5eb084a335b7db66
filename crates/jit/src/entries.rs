//! [`EntriesById`]: entries of an engine that records, by the ids that its records use.

use entries::{StateChange, StoredActionRef, StoredEntry};
use ir::{Entity, Pipeline, TableId};
use lookup::LiveTables;

/// An entry id with its current entry.
#[derive(Clone, Default)]
struct EntryVersion {
    entry: Option<StoredEntry>,
    /// Distinguishes the entry from earlier ones with the same id.
    generation: u32,
}

/// Entries by table and id. Each costs a pointer and a generation.
pub struct EntriesById {
    tables: Vec<Vec<EntryVersion>>,
    /// For each table, the words of the action data of its widest action.
    args: Vec<usize>,
}

impl EntriesById {
    /// Collects the current entries.
    pub fn new(pipeline: &Pipeline, live: &LiveTables) -> EntriesById {
        let words = |action: &ir::ActionRef| {
            entries::action_layout(pipeline, action.action).last().map_or(0, |field| field.offset + field.words)
        };
        let args = pipeline.tables.values().map(|table| table.actions.iter().map(words).max().unwrap_or(0)).collect();
        let mut entries = EntriesById { tables: vec![Vec::new(); pipeline.tables.len()], args };
        entries.rebuild(pipeline, live);
        entries
    }

    /// Rebuilds the index after all ids were reassigned.
    pub fn rebuild(&mut self, pipeline: &Pipeline, live: &LiveTables) {
        let tables = self.tables.iter_mut().enumerate();
        let all = tables.flat_map(|(table, places)| (0..places.len() as u32).map(move |number| (table, number)));
        for (table, number) in all.collect::<Vec<_>>() {
            self.remove(TableId::from_index(table), number);
        }
        for table in pipeline.tables.keys() {
            for entry in live.state().entries(table) {
                if let Some(number) = live.entry_id(table, entry) {
                    self.insert(table, number, entry);
                }
            }
        }
    }

    /// Applies a change to the entry with that id.
    pub fn apply_change(&mut self, change: &StateChange, number: Option<u32>) {
        match (change, number) {
            (StateChange::Inserted(table, entry, _), Some(number)) => self.insert(*table, number, entry),
            (StateChange::Modified(table, _, entry, _), Some(number)) => {
                if let Some(place) = self.tables[table.index()].get_mut(number as usize) {
                    place.entry = Some(entry.clone());
                }
            }
            (StateChange::Deleted(table, _), Some(number)) => self.remove(*table, number),
            _ => {}
        }
    }

    fn insert(&mut self, table: TableId, number: u32, entry: &StoredEntry) {
        let places = &mut self.tables[table.index()];
        if number as usize >= places.len() {
            places.resize(number as usize + 1, EntryVersion::default());
        }
        let place = &mut places[number as usize];
        place.entry = Some(entry.clone());
        place.generation = place.generation.wrapping_add(1);
    }

    fn remove(&mut self, table: TableId, number: u32) {
        let place = self.tables[table.index()].get_mut(number as usize).filter(|place| place.entry.is_some());
        if let Some(place) = place {
            place.entry = None;
            place.generation = place.generation.wrapping_add(1);
        }
    }

    fn entry_version(&self, table: TableId, number: u32) -> Option<&EntryVersion> {
        self.tables.get(table.index())?.get(number as usize)
    }

    /// Returns the entry with an id.
    pub fn get(&self, table: TableId, number: u32) -> Option<&StoredEntry> {
        self.entry_version(table, number)?.entry.as_ref()
    }

    /// Returns the generation of an id, see [`crate::Jit::generation`].
    pub fn generation(&self, table: TableId, number: u32) -> u32 {
        self.entry_version(table, number).map_or(0, |place| place.generation)
    }

    /// Replaces `words` by the action data of the entry with an id, padded with 0 to the table's
    /// widest action. Returns false if the entry does not exist.
    pub fn copy_action_data(&self, table: TableId, number: u32, words: &mut Vec<u64>) -> bool {
        words.clear();
        let Some(entry) = self.get(table, number) else { return false };
        if let StoredActionRef::Call(_, args) = entry.action() {
            words.extend_from_slice(args);
        }
        words.resize(self.args[table.index()], 0);
        true
    }
}
