//! [`Share`]: what of the control plane's writes the upper tier gets.
//!
//! The lower tier has all tables. The upper tier has those that it applies: whole, or of a hot table the entries that [`Hot`] chose. A counter is in both, and
//! its value is the sum; so who sets it sets the lower one, and the upper one to 0.

use crate::cut::Cut;
use crate::hot::{Hot, Moves};
use entries::{Change, Counter, Entry, EntryId, KeyLayout, State, Update, UpdateKind, WriteBatch};
use ir::{Entity, ExternId, ExternKind, Inst, Pipeline, TableId};
use std::collections::{BTreeMap, HashSet};

/// What of the writes the upper tier gets, and what it has.
pub struct Share {
    /// Of each table's keys.
    layouts: Vec<KeyLayout>,
    /// Tables that the upper tier applies.
    applied: HashSet<TableId>,
    hot: BTreeMap<TableId, Hot>,
    /// What the last batch took from hot tables, to be taken back.
    took: Vec<(TableId, Entry)>,
    away: Vec<(TableId, Entry)>,
}

impl Share {
    /// For a pipeline that was cut; `room` says how many entries of hot tables there may be above.
    pub fn new(pipeline: &Pipeline, cut: &Cut, room: impl Fn(TableId) -> u64) -> Share {
        let applied = applied(&cut.upper);
        let hot = cut.hot.iter().map(|table| (*table, Hot::new(pipeline, *table, room(*table)))).collect();
        let layouts = pipeline.tables.values().map(|table| KeyLayout::new(&table.keys)).collect();
        Share { layouts, applied, hot, took: Vec::new(), away: Vec::new() }
    }

    /// Whether the upper tier applies the table.
    pub fn applies(&self, table: TableId) -> bool {
        self.applied.contains(&table)
    }

    /// The hot tables, with what of them is above.
    pub fn hot(&self) -> impl Iterator<Item = (TableId, &Hot)> {
        self.hot.iter().map(|(table, hot)| (*table, hot))
    }

    /// What the upper tier is written when a batch has made these changes. If it refuses that, call [`Share::take_back`].
    pub fn above(&mut self, batch: &WriteBatch, changes: &[Change]) -> WriteBatch {
        self.took.clear();
        self.away.clear();
        let mut entries = changes.iter().filter_map(entry_of);
        let mut above = WriteBatch::new();
        for update in &batch.updates {
            match update {
                Update::Entry(..) | Update::Packed(..) => {
                    if let Some((_, _, change)) = entries.next() {
                        self.entry(change, &mut above);
                    }
                }
                Update::DirectCounter(id, _) => {
                    let is_above = entries.next().is_some_and(|(table, entry, _)| self.has(table, entry));
                    above.updates.extend(is_above.then(|| Update::DirectCounter(id.clone(), Counter::default())));
                }
                // Which is a change of the entry, and of no hot one: meters are in one place.
                Update::DirectMeter(id, _) => {
                    entries.next();
                    above.updates.extend(self.applied.contains(&id.table).then(|| update.clone()));
                }
                Update::DefaultAction(table, _) if !self.applied.contains(table) => {}
                Update::Counter(object, index, _) => {
                    above.push(Update::Counter(*object, *index, Counter::default()));
                }
                other => {
                    above.push(other.clone());
                }
            }
        }
        above
    }

    fn entry(&mut self, change: &Change, above: &mut WriteBatch) {
        let Some((table, entry, _)) = entry_of(change).filter(|(table, ..)| self.applied.contains(table)) else {
            return;
        };
        let mut hot = self.hot.get_mut(&table);
        let is_hot = hot.is_some();
        match change {
            Change::Inserted(..) => match hot {
                None => {
                    above.kept(UpdateKind::Insert, table, entry);
                }
                Some(hot) => {
                    for out in hot.inserted(entry) {
                        above.kept(UpdateKind::Delete, table, &out);
                        self.took.push((table, out.clone()));
                        self.away.push((table, out));
                    }
                }
            },
            Change::Modified(_, old, _, counter) if hot.as_mut().is_none_or(|hot| hot.modified(entry)) => {
                above.kept(UpdateKind::Modify, table, entry);
                self.took.extend(is_hot.then(|| (table, old.clone())));
                if counter.is_some() {
                    let id = EntryId::of(&self.layouts[table.index()], table, entry);
                    above.push(Update::DirectCounter(id, Counter::default()));
                }
            }
            Change::Deleted(..) if hot.is_none_or(|hot| hot.deleted(entry.key(), entry.priority())) => {
                above.kept(UpdateKind::Delete, table, entry);
                self.took.extend(is_hot.then(|| (table, entry.clone())));
            }
            _ => {}
        }
    }

    /// The upper tier has refused the last batch: it has what it had.
    pub fn take_back(&mut self) {
        for (table, entry) in self.took.drain(..).rev() {
            if let Some(hot) = self.hot.get_mut(&table) {
                hot.restore(entry);
            }
        }
    }

    /// Whether an entry that the whole has is above.
    fn has(&self, table: TableId, entry: &Entry) -> bool {
        let is_hot = |hot: &Hot| hot.has(entry.key(), entry.priority());
        self.applied.contains(&table) && self.hot.get(&table).is_none_or(is_hot)
    }

    /// Chooses the hot entries anew, by how often each was hit since the last time: what the upper tier is to be written.
    pub fn choose(&mut self, table: TableId, state: &State, hits: impl Fn(&Entry) -> u64) -> (Moves, WriteBatch) {
        let Some(hot) = self.hot.get_mut(&table) else { return Default::default() };
        let moves = hot.choose(state, hits);
        let mut batch = WriteBatch::new();
        moves.out.iter().for_each(|entry| _ = batch.kept(UpdateKind::Delete, table, entry));
        moves.new.iter().for_each(|entry| _ = batch.kept(UpdateKind::Insert, table, entry));
        (moves, batch)
    }

    /// The upper tier has refused a choice: all it has of the table is to go. These entries, and what it is to be written.
    pub fn give_up(&mut self, table: TableId, moves: Moves) -> (Vec<Entry>, WriteBatch) {
        let Some(hot) = self.hot.get_mut(&table) else { return Default::default() };
        hot.forget(&moves.new);
        let has: Vec<Entry> = hot.entries().cloned().chain(moves.out).collect();
        hot.clear();
        let mut batch = WriteBatch::new();
        has.iter().for_each(|entry| _ = batch.kept(UpdateKind::Delete, table, entry));
        (has, batch)
    }

    /// The entries that the last batch sent away from the upper tier, and which the whole still has.
    pub fn sent_away(&self) -> &[(TableId, Entry)] {
        &self.away
    }
}

/// The entry that a change is about.
fn entry_of(change: &Change) -> Option<(TableId, &Entry, &Change)> {
    match change {
        Change::Inserted(table, entry, _)
        | Change::Modified(table, _, entry, _)
        | Change::Deleted(table, entry)
        | Change::DirectCounter(table, entry, _) => Some((*table, entry, change)),
        _ => None,
    }
}

/// The tables that a pipeline applies.
pub fn applied(pipeline: &Pipeline) -> HashSet<TableId> {
    let blocks = pipeline.controls.values().flat_map(|control| control.body.blocks.values());
    blocks.filter_map(|block| block.applied()).collect()
}

/// The objects that a pipeline uses.
pub fn used(pipeline: &Pipeline) -> HashSet<ExternId> {
    let objects = pipeline.insts().filter_map(|inst| match &inst.inst {
        Inst::Extern { object, .. } => *object,
        _ => None,
    });
    objects.collect()
}

/// The objects that only the upper half uses: their state is there. A counter is in both.
pub fn objects_above(cut: &Cut) -> HashSet<ExternId> {
    let counts = |object: &ExternId| matches!(cut.upper.externs[*object].kind, ExternKind::Counter { .. });
    let below = used(&cut.lower);
    used(&cut.upper).into_iter().filter(|object| !below.contains(object) && !counts(object)).collect()
}
