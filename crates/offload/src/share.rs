//! [`Share`]: what of the control plane's writes the upper tier gets.
//!
//! The lower tier has all tables. The upper tier has those that it applies: whole, or of a hot table the entries that [`Hot`] chose. A counter is in both, and
//! its value is the sum; so who sets it sets the lower one, and the upper one to 0.

use crate::cut::Cut;
use crate::hot::{Hot, Moves};
use ir::{ExternKind, Pipeline, TableId, Term};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use tables::{Change, CounterData, Entry, EntryId, PackedEntry, State, Update, UpdateKind, WriteBatch};

/// What of the writes the upper tier gets, and what it has.
pub struct Share {
    pipeline: Arc<Pipeline>,
    /// Tables that the upper tier applies.
    applied: HashSet<TableId>,
    hot: BTreeMap<TableId, Hot>,
    /// What the last batch took from hot tables, to be taken back.
    took: Vec<(TableId, Entry)>,
    away: Vec<(TableId, Entry)>,
}

impl Share {
    /// For a pipeline that was cut; `room` says how many entries of hot tables there may be above.
    pub fn new(pipeline: &Arc<Pipeline>, cut: &Cut, room: impl Fn(TableId) -> u64) -> Share {
        let applied = applied(&cut.upper);
        let hot = cut.hot.iter().map(|table| (*table, Hot::new(pipeline, *table, room(*table)))).collect();
        Share { pipeline: pipeline.clone(), applied, hot, took: Vec::new(), away: Vec::new() }
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
        let mut entries = changes
            .iter()
            .filter(|change| matches!(change, Change::Inserted(..) | Change::Modified(..) | Change::Deleted(..)));
        let mut above = WriteBatch::new();
        for update in &batch.updates {
            match update {
                Update::Entry(..) | Update::Packed(..) => {
                    if let Some(change) = entries.next() {
                        self.entry(change, &mut above);
                    }
                }
                Update::DefaultAction(table, _) if !self.applied.contains(table) => {}
                Update::Counter(object, index, _) => {
                    above.push(Update::Counter(*object, *index, CounterData::default()));
                }
                Update::DirectCounter(id, _) => {
                    if self.has(id) {
                        above.push(Update::DirectCounter(id.clone(), CounterData::default()));
                    }
                }
                Update::DirectMeter(id, _) => {
                    // Which is a change of the entry.
                    let changed = entries.next();
                    if self.has(id) {
                        above.push(update.clone());
                        if let (Some(Change::Modified(table, _, entry, _)), true) =
                            (changed, self.hot.contains_key(&id.table))
                        {
                            self.hot.get_mut(table).map(|hot| hot.modified(entry));
                        }
                    }
                }
                other => {
                    above.push(other.clone());
                }
            }
        }
        above
    }

    fn entry(&mut self, change: &Change, above: &mut WriteBatch) {
        let (Change::Inserted(table, ..) | Change::Modified(table, ..) | Change::Deleted(table, _)) = change else {
            return;
        };
        if !self.applied.contains(table) {
            return;
        }
        let hot = self.hot.get_mut(table);
        match change {
            Change::Inserted(table, entry, _) => match hot {
                None => above.updates.push(packed(UpdateKind::Insert, *table, entry)),
                Some(hot) => {
                    for out in hot.inserted(entry) {
                        above.updates.push(packed(UpdateKind::Delete, *table, &out));
                        self.took.push((*table, out.clone()));
                        self.away.push((*table, out));
                    }
                }
            },
            Change::Modified(table, old, entry, counter) => {
                let is_hot = hot.is_some();
                let is_above = hot.is_none_or(|hot| hot.modified(entry));
                let updates = is_above.then(|| packed(UpdateKind::Modify, *table, entry));
                above.updates.extend(updates);
                self.took.extend((is_above && is_hot).then(|| (*table, old.clone())));
                if is_above && counter.is_some() {
                    let id = identity(&self.pipeline, *table, entry);
                    above.push(Update::DirectCounter(id, CounterData::default()));
                }
            }
            Change::Deleted(table, entry) => {
                let is_hot = hot.is_some();
                let is_above = hot.is_none_or(|hot| hot.deleted(entry.key(), entry.priority()));
                above.updates.extend(is_above.then(|| packed(UpdateKind::Delete, *table, entry)));
                self.took.extend((is_above && is_hot).then(|| (*table, entry.clone())));
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

    /// Whether an entry is above.
    pub fn has(&self, id: &EntryId) -> bool {
        let is_hot = |hot: &Hot| hot.entries().any(|entry| identity(&self.pipeline, id.table, entry) == *id);
        self.applied.contains(&id.table) && self.hot.get(&id.table).is_none_or(is_hot)
    }

    /// Chooses the hot entries anew, by how often each was hit since the last time: what the upper tier is to be written.
    pub fn choose(&mut self, table: TableId, state: &State, hits: impl Fn(&Entry) -> u64) -> (Moves, WriteBatch) {
        let Some(hot) = self.hot.get_mut(&table) else { return Default::default() };
        let moves = hot.choose(state, hits);
        let out = moves.out.iter().map(|entry| packed(UpdateKind::Delete, table, entry));
        let new = moves.new.iter().map(|entry| packed(UpdateKind::Insert, table, entry));
        let batch = out.chain(new).collect();
        (moves, batch)
    }

    /// The upper tier has refused a choice: all it has of the table is to go. These entries, and what it is to be written.
    pub fn give_up(&mut self, table: TableId, moves: Moves) -> (Vec<Entry>, WriteBatch) {
        let Some(hot) = self.hot.get_mut(&table) else { return Default::default() };
        hot.forget(&moves.new);
        let has: Vec<Entry> = hot.entries().cloned().chain(moves.out).collect();
        hot.clear();
        let batch = has.iter().map(|entry| packed(UpdateKind::Delete, table, entry)).collect();
        (has, batch)
    }

    /// The entries that the last batch sent away from the upper tier, and which the whole still has.
    pub fn sent_away(&self) -> &[(TableId, Entry)] {
        &self.away
    }
}

fn packed(kind: UpdateKind, table: TableId, entry: &Entry) -> Update {
    let words = match kind {
        UpdateKind::Delete => PackedEntry::identity(table, entry.key()).with_priority(entry.priority()),
        _ => PackedEntry::new(table, entry.key(), entry.action()).with_attributes_of(entry),
    };
    Update::Packed(kind, words)
}

fn identity(pipeline: &Pipeline, table: TableId, entry: &Entry) -> EntryId {
    let whole = entry.to_table_entry(pipeline, table);
    EntryId { table, keys: whole.keys, priority: whole.priority }
}

/// The tables that a pipeline applies.
pub fn applied(pipeline: &Pipeline) -> HashSet<TableId> {
    let bodies = pipeline.controls.values().flat_map(|control| control.body.blocks.values());
    let applied = bodies.filter_map(|block| match block.term.as_ref().map(|term| &term.term) {
        Some(Term::Apply { table, .. }) => Some(*table),
        _ => None,
    });
    applied.collect()
}

/// Whether all that uses an indexed object is above: then its state is there, else below.
pub fn is_above(cut: &Cut, object: ir::ExternId) -> bool {
    let uses = |pipeline: &Pipeline| {
        let insts = pipeline.controls.values().flat_map(|c| c.body.blocks.values()).flat_map(|b| &b.insts);
        let mut objects = insts.filter_map(|inst| match &inst.inst {
            ir::Inst::Extern { object, .. } => *object,
            _ => None,
        });
        objects.any(|used| used == object)
    };
    let counts = matches!(cut.upper.externs.get(object).map(|o| &o.kind), Some(ExternKind::Counter { .. }));
    !counts && uses(&cut.upper) && !uses(&cut.lower)
}
