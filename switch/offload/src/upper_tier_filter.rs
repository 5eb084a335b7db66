//! [`UpperTierFilter`]: the part of the control plane's writes that the upper tier receives.
//!
//! The lower tier has all tables. The upper tier has the tables that it applies: whole, or for a
//! hot table the entries that [`HotSet`] selected. A counter is in both tiers and its value is the
//! sum, so setting it sets the lower counter and zeroes the upper one.

use crate::hot_set::{HotSet, HotSetDelta};
use crate::partition::PipelinePartition;
use entries::{
    ControlState, Counter, EntryId, KeyLayout, StateChange, StateUpdate, StoredEntry, UpdateKind, WriteBatch,
};
use ir::{Entity, ExternId, ExternKind, Inst, Pipeline, TableId};
use std::collections::{BTreeMap, HashSet};

/// Filter of writes for the upper tier, with its hot sets.
pub struct UpperTierFilter {
    /// Key layouts by table.
    layouts: Vec<KeyLayout>,
    /// Tables that the upper tier applies.
    applied: HashSet<TableId>,
    hot: BTreeMap<TableId, HotSet>,
    /// Tables to which packets add entries: the copies of the upper tier have no idle timeout.
    written_by_packets: HashSet<TableId>,
    /// Entries of hot sets before the last batch, for a rollback.
    replaced: Vec<(TableId, StoredEntry)>,
    evicted: Vec<(TableId, StoredEntry)>,
}

impl UpperTierFilter {
    /// Creates the filter for a partitioned pipeline. `room` returns the capacity of a hot table in
    /// entries.
    pub fn new(pipeline: &Pipeline, cut: &PipelinePartition, room: impl Fn(TableId) -> u64) -> UpperTierFilter {
        let applied = applied_tables(&cut.upper);
        let hot = cut.hot_tables.iter().map(|table| (*table, HotSet::new(pipeline, *table, room(*table)))).collect();
        let layouts = pipeline.tables.values().map(|table| KeyLayout::new(&table.keys)).collect();
        let written = pipeline.tables.iter().filter(|(_, table)| table.add_on_miss);
        let written_by_packets = written.map(|(table, _)| table).collect();
        UpperTierFilter { layouts, applied, hot, written_by_packets, replaced: Vec::new(), evicted: Vec::new() }
    }

    /// Returns whether the upper tier applies the table.
    pub fn applies(&self, table: TableId) -> bool {
        self.applied.contains(&table)
    }

    /// Returns the hot tables with their hot sets.
    pub fn hot_sets(&self) -> impl Iterator<Item = (TableId, &HotSet)> {
        self.hot.iter().map(|(table, hot)| (*table, hot))
    }

    /// Returns the writes for the upper tier after a batch made these changes. If the upper tier
    /// refuses them, call [`UpperTierFilter::rollback`].
    pub fn filter_batch(&mut self, batch: &WriteBatch, changes: &[StateChange]) -> WriteBatch {
        self.replaced.clear();
        self.evicted.clear();
        let mut entries = changes.iter().filter_map(changed_entry);
        let mut upper = WriteBatch::new();
        for update in &batch.updates {
            match update {
                StateUpdate::Entry(..) | StateUpdate::Packed(..) => {
                    if let Some((_, _, change)) = entries.next() {
                        self.filter_entry(change, &mut upper);
                    }
                }
                StateUpdate::DirectCounter(id, _) => {
                    let is_above = entries.next().is_some_and(|(table, entry, _)| self.holds_entry(table, entry));
                    upper.updates.extend(is_above.then(|| StateUpdate::DirectCounter(id.clone(), Counter::default())));
                }
                // The change concerns no hot entry, because a table with a direct meter is on one
                // side.
                StateUpdate::DirectMeter(id, _) => {
                    entries.next();
                    upper.updates.extend(self.applied.contains(&id.table).then(|| update.clone()));
                }
                StateUpdate::DefaultAction(table, _) if !self.applied.contains(table) => {}
                StateUpdate::Counter(object, index, _) => {
                    upper.push(StateUpdate::Counter(*object, *index, Counter::default()));
                }
                other => {
                    upper.push(other.clone());
                }
            }
        }
        upper
    }

    /// Adds an entry's change to the writes for the upper tier, if the table is there:
    /// all changes of a complete table, those of present entries of a hot one. An insertion that
    /// shadows hot entries evicts them.
    fn filter_entry(&mut self, change: &StateChange, upper: &mut WriteBatch) {
        let Some((table, entry, _)) = changed_entry(change).filter(|(table, ..)| self.applied.contains(table)) else {
            return;
        };
        let mut hot_set = self.hot.get_mut(&table);
        let is_hot = hot_set.is_some();
        match change {
            StateChange::Inserted(..) => match hot_set {
                None => {
                    upper.push_stored(UpdateKind::Insert, table, entry);
                }
                Some(hot_set) => {
                    for evicted in hot_set.on_insert(entry) {
                        upper.push_stored(UpdateKind::Delete, table, &evicted);
                        self.replaced.push((table, evicted.clone()));
                        self.evicted.push((table, evicted));
                    }
                }
            },
            StateChange::Modified(_, old, _, counter)
                if hot_set.as_mut().is_none_or(|hot_set| hot_set.on_modify(entry)) =>
            {
                self.push_copy(UpdateKind::Modify, table, entry, upper);
                self.replaced.extend(is_hot.then(|| (table, old.clone())));
                if counter.is_some() {
                    let id = EntryId::from_stored(&self.layouts[table.index()], table, entry);
                    upper.push(StateUpdate::DirectCounter(id, Counter::default()));
                }
            }
            StateChange::Deleted(..)
                if hot_set.is_none_or(|hot_set| hot_set.on_delete(entry.key(), entry.priority())) =>
            {
                upper.push_stored(UpdateKind::Delete, table, entry);
                self.replaced.extend(is_hot.then(|| (table, entry.clone())));
            }
            _ => {}
        }
    }

    /// Restores the hot sets after the upper tier refused the last batch.
    pub fn rollback(&mut self) {
        for (table, entry) in self.replaced.drain(..).rev() {
            if let Some(hot) = self.hot.get_mut(&table) {
                hot.restore(entry);
            }
        }
    }

    /// Returns whether the upper tier holds an entry of the whole table.
    fn holds_entry(&self, table: TableId, entry: &StoredEntry) -> bool {
        let is_hot = |hot: &HotSet| hot.contains(entry.key(), entry.priority());
        self.applied.contains(&table) && self.hot.get(&table).is_none_or(is_hot)
    }

    /// Reselects the hot entries by their hits since the last selection. Returns the change and the
    /// writes for the upper tier.
    pub fn reselect_hot(
        &mut self,
        table: TableId,
        state: &ControlState,
        hits: impl Fn(&StoredEntry) -> u64,
    ) -> (HotSetDelta, WriteBatch) {
        let Some(hot) = self.hot.get_mut(&table) else { return Default::default() };
        let moves = hot.reselect(state, hits);
        let mut batch = WriteBatch::new();
        moves.removed.iter().for_each(|entry| _ = batch.push_stored(UpdateKind::Delete, table, entry));
        moves.added.iter().for_each(|entry| self.push_copy(UpdateKind::Insert, table, entry, &mut batch));
        (moves, batch)
    }

    /// Adds the write of an entry's copy to the writes for the upper tier.
    fn push_copy(&self, kind: UpdateKind, table: TableId, entry: &StoredEntry, upper: &mut WriteBatch) {
        match self.written_by_packets.contains(&table) {
            true => upper.push_stored(kind, table, &entry.without_idle_timeout()),
            false => upper.push_stored(kind, table, entry),
        };
    }

    /// Adds an entry of an exact table to its hot set, if there is capacity, and its insertion to the
    /// writes for the upper tier. Returns whether it was added.
    pub fn add_hot(&mut self, table: TableId, entry: &StoredEntry, upper: &mut WriteBatch) -> bool {
        let is_added = self.hot.get_mut(&table).is_some_and(|hot| hot.add(entry));
        if is_added {
            self.push_copy(UpdateKind::Insert, table, entry, upper);
        }
        is_added
    }

    /// Removes an entry from a hot set, and adds its deletion to the writes for the upper tier. Returns
    /// whether it was there.
    pub fn remove_hot(&mut self, table: TableId, entry: &StoredEntry, upper: &mut WriteBatch) -> bool {
        let hot = self.hot.get_mut(&table);
        let was_there = hot.is_some_and(|hot| hot.on_delete(entry.key(), entry.priority()));
        if was_there {
            upper.push_stored(UpdateKind::Delete, table, entry);
        }
        was_there
    }

    /// Clears a hot set after the upper tier refused a selection. Returns the entries of the upper
    /// tier and the writes that remove them.
    pub fn drop_hot_set(&mut self, table: TableId, moves: HotSetDelta) -> (Vec<StoredEntry>, WriteBatch) {
        let Some(hot) = self.hot.get_mut(&table) else { return Default::default() };
        hot.remove_refused(&moves.added);
        let has: Vec<StoredEntry> = hot.entries().cloned().chain(moves.removed).collect();
        hot.clear();
        let mut batch = WriteBatch::new();
        has.iter().for_each(|entry| _ = batch.push_stored(UpdateKind::Delete, table, entry));
        (has, batch)
    }

    /// Returns the entries that the last batch evicted from the upper tier and that the whole table
    /// still has.
    pub fn evicted_entries(&self) -> &[(TableId, StoredEntry)] {
        &self.evicted
    }
}

/// Returns the entry that a change concerns.
fn changed_entry(change: &StateChange) -> Option<(TableId, &StoredEntry, &StateChange)> {
    match change {
        StateChange::Inserted(table, entry, _)
        | StateChange::Modified(table, _, entry, _)
        | StateChange::Deleted(table, entry)
        | StateChange::DirectCounter(table, entry, _) => Some((*table, entry, change)),
        _ => None,
    }
}

/// Returns the tables that a pipeline applies.
pub fn applied_tables(pipeline: &Pipeline) -> HashSet<TableId> {
    let blocks = pipeline.controls.values().flat_map(|control| control.body.blocks.values());
    blocks.filter_map(|block| block.applied_table()).collect()
}

/// Returns the objects that a pipeline uses.
pub fn used_objects(pipeline: &Pipeline) -> HashSet<ExternId> {
    let objects = pipeline.insts().filter_map(|inst| match &inst.inst {
        Inst::Extern { object, .. } => *object,
        _ => None,
    });
    objects.collect()
}

/// Returns the objects with state in the upper half: those that only it uses. Counters are in both
/// halves.
pub fn objects_above(cut: &PipelinePartition) -> HashSet<ExternId> {
    let counts = |object: &ExternId| {
        matches!(cut.upper.externs[*object].kind, ExternKind::Counter { .. } | ExternKind::DirectCounter { .. })
    };
    let below = used_objects(&cut.lower);
    used_objects(&cut.upper).into_iter().filter(|object| !below.contains(object) && !counts(object)).collect()
}
