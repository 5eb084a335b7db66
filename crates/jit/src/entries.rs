//! [`Entries`]: the entries of an engine that records, by the numbers under which its records name them.

use entries::{Change, Entry, PackedAction};
use ir::{Entity, Pipeline, TableId};
use lookup::Live;

/// A number of an entry.
#[derive(Clone, Default)]
struct Place {
    entry: Option<Entry>,
    /// Tells the entry from those that had the number before.
    generation: u32,
}

/// By table and number. To keep an entry here costs a pointer and a count.
pub struct Entries {
    tables: Vec<Vec<Place>>,
    /// For each table, the words of the widest of its actions' parameters.
    args: Vec<usize>,
}

impl Entries {
    /// Those that there are.
    pub fn new(pipeline: &Pipeline, live: &Live) -> Entries {
        let words = |action: &ir::ActionRef| {
            entries::action_layout(pipeline, action.action).last().map_or(0, |field| field.offset + field.words)
        };
        let args = pipeline.tables.values().map(|table| table.actions.iter().map(words).max().unwrap_or(0)).collect();
        let mut entries = Entries { tables: vec![Vec::new(); pipeline.tables.len()], args };
        entries.renew(pipeline, live);
        entries
    }

    /// All numbers were given anew.
    pub fn renew(&mut self, pipeline: &Pipeline, live: &Live) {
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

    /// A change is carried out, to the entry of that number.
    pub fn change(&mut self, change: &Change, number: Option<u32>) {
        match (change, number) {
            (Change::Inserted(table, entry, _), Some(number)) => self.insert(*table, number, entry),
            (Change::Modified(table, _, entry, _), Some(number)) => {
                if let Some(place) = self.tables[table.index()].get_mut(number as usize) {
                    place.entry = Some(entry.clone());
                }
            }
            (Change::Deleted(table, _), Some(number)) => self.remove(*table, number),
            _ => {}
        }
    }

    fn insert(&mut self, table: TableId, number: u32, entry: &Entry) {
        let places = &mut self.tables[table.index()];
        if number as usize >= places.len() {
            places.resize(number as usize + 1, Place::default());
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

    fn place(&self, table: TableId, number: u32) -> Option<&Place> {
        self.tables.get(table.index())?.get(number as usize)
    }

    /// The entry of a number.
    pub fn get(&self, table: TableId, number: u32) -> Option<&Entry> {
        self.place(table, number)?.entry.as_ref()
    }

    /// See [`crate::Jit::generation`].
    pub fn generation(&self, table: TableId, number: u32) -> u32 {
        self.place(table, number).map_or(0, |place| place.generation)
    }

    /// Replaces `words` by those of the parameters that the entry of a number gives its action, and 0 for what is beyond. False if there is no such entry.
    pub fn args(&self, table: TableId, number: u32, words: &mut Vec<u64>) -> bool {
        words.clear();
        let Some(entry) = self.get(table, number) else { return false };
        if let PackedAction::Call(_, args) = entry.action() {
            words.extend_from_slice(args);
        }
        words.resize(self.args[table.index()], 0);
        true
    }
}
