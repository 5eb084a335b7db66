//! Changes to a [`LookupSet`]: applied from the state, or copied from the other copy.

use super::{ChangesWithIds, LookupSet, LookupStructure, TableLookups};
use crate::encode::{KeyBuf, ValueBuf};
use crate::exact::ExactTable;
use entries::ControlState;
use entries::StateChange;
use entries::StoredEntry;
use ir::{Entity, ExternId};
use smallvec::SmallVec;
use std::sync::Arc;

/// Minimum number of changes for which reserving space in advance pays off.
const BULK_MIN_CHANGES: usize = 1024;

/// Number of changes between prefetching an entry's memory and applying its change.
const PREFETCH_DISTANCE: usize = 8;

/// Scratch buffers for encoding a key and a value.
#[derive(Default)]
struct EncodeScratch {
    key: KeyBuf,
    value: ValueBuf,
}

impl LookupSet {
    /// Applies changes that the state has accepted. `state` includes these changes and possibly
    /// later ones.
    ///
    /// Objects that a change only names by id are read from that state. The copy is consistent once
    /// all changes up to the state's version have been applied in order.
    pub(crate) fn apply_changes(&mut self, state: &ControlState, batch: &ChangesWithIds) {
        let held_elsewhere = self.held_elsewhere.clone();
        self.apply_except(state, batch, &held_elsewhere);
    }

    /// Starts tracking changes to tables, so that the other copy can [catch
    /// up](Self::catch_up_from).
    pub(crate) fn track_changes(&mut self) {
        self.exact_tables().for_each(ExactTable::track_changes);
    }

    /// Clears the tracked changes after the other copy has caught up.
    pub(crate) fn clear_tracked_changes(&mut self) {
        self.exact_tables().for_each(ExactTable::clear_tracked_changes);
    }

    fn exact_tables(&mut self) -> impl Iterator<Item = &mut ExactTable> {
        self.tables.iter_mut().filter_map(|table| match &mut table.structure {
            LookupStructure::Exact(exact) => Some(exact),
            _ => None,
        })
    }

    /// Applies the changes that `other` is ahead by. `standby_backlog` must be exactly the changes
    /// that `other` has tracked since both were equal. Copies the results where `other` tracked
    /// them, and applies all other changes as [`LookupSet::apply_changes`] does.
    pub(crate) fn catch_up_from(
        &mut self,
        other: &LookupSet,
        state: &ControlState,
        standby_backlog: &[Arc<ChangesWithIds>],
    ) {
        let mut done: SmallVec<[bool; 64]> =
            self.tables.iter_mut().zip(&other.tables).map(|(own, other)| own.catch_up_from(other)).collect();
        done.iter_mut().zip(&*self.held_elsewhere).for_each(|(done, elsewhere)| *done |= elsewhere);
        standby_backlog.iter().for_each(|batch| self.apply_except(state, batch, &done));
    }

    /// Applies all changes except changes of entries in tables marked in `done`, which the caller
    /// has copied or the engine holds. `done` is indexed by table. Large batches reserve memory
    /// first and maintain at the end.
    fn apply_except(&mut self, state: &ControlState, batch: &ChangesWithIds, done: &[bool]) {
        let mut groups = Vec::new();
        let mut scratch = EncodeScratch::default();
        let is_done =
            |change: &StateChange| change.entry().is_some_and(|(table, _)| done.get(table.index()) == Some(&true));
        if batch.changes.len() >= BULK_MIN_CHANGES {
            self.reserve_for_batch(&batch.changes, done);
            self.prefetch_first_changes(batch);
        }
        for (index, change) in batch.changes.iter().enumerate() {
            if is_done(change) {
                continue;
            }
            if let Some((_, entry)) = batch.changes.get(index + 2 * PREFETCH_DISTANCE).and_then(StateChange::entry) {
                entry.prefetch();
            }
            if let Some(upcoming) = batch.changes.get(index + PREFETCH_DISTANCE) {
                self.prefetch_change(upcoming, &mut scratch.key);
            }
            let entry_id = batch.entry_id(index);
            match change {
                StateChange::Inserted(table, entry, _) => {
                    self.tables[table.index()].insert_entry(&mut scratch, entry, entry_id)
                }
                StateChange::Modified(table, old, new, _) if old.action() != new.action() => {
                    self.tables[table.index()].insert_entry(&mut scratch, new, entry_id);
                }
                StateChange::Deleted(table, entry) => self.tables[table.index()].remove_entry(&mut scratch, entry),
                StateChange::DefaultAction(table) => {
                    self.tables[table.index()].set_default(state.default_action(*table))
                }
                StateChange::Member(profile, id) => self.update_member(state, *profile, *id),
                StateChange::Group(profile, id) => groups.push((*profile, *id)),
                StateChange::ValueSet(set) => {
                    self.value_sets[set.index()]
                        .replace_members(state.shared_objects().value_sets[set.index()].clone());
                }
                // Objects shared with the state are updated below. Values of counters and registers
                // belong to the engine.
                _ => {}
            }
        }
        // Groups come after members because a batch can contain a group's members after the group.
        for (profile, id) in groups {
            if let (Some(profile), Some(members)) = (state.profile(profile), self.profiles.get_mut(profile.index())) {
                members.update_group(profile, id);
            }
        }
        if batch.changes.len() >= BULK_MIN_CHANGES {
            self.maintain(batch.changes.len());
        }
        let objects = state.shared_objects();
        share_arc(&mut self.multicast_groups, objects.multicast);
        share_arc(&mut self.clone_sessions, objects.clones);
        share_arc(&mut self.meters, objects.meters);
        share_arc(&mut self.expire_times, objects.expire_times);
        self.version = state.version();
    }

    fn update_member(&mut self, state: &ControlState, id: ExternId, member: u32) {
        let (Some(profile), Some(members)) = (state.profile(id), self.profiles.get_mut(id.index())) else { return };
        let users = self.tables.iter_mut().filter(|table| table.profile == Some(id));
        members.update_member(profile, member, users.map(|table| (&*table.encoder, &mut table.members)));
    }

    /// Does up to `pieces` pieces of pending reorganisation, of some microseconds each; changes
    /// otherwise do it incrementally. Returns whether more is pending.
    pub(crate) fn maintain(&mut self, pieces: usize) -> bool {
        let mut left = pieces;
        for table in &mut self.tables {
            if let LookupStructure::Ternary(ternary) = &mut table.structure {
                while left > 0 && ternary.maintain() {
                    left -= 1;
                }
            }
        }
        !self.is_maintained()
    }

    /// Prefetches the memory of a batch's first changes before the batch is applied. Applying
    /// prefetches for the later ones.
    pub(crate) fn prefetch_first_changes(&self, batch: &ChangesWithIds) {
        let mut scratch = KeyBuf::new();
        batch.changes.iter().take(PREFETCH_DISTANCE).for_each(|change| self.prefetch_change(change, &mut scratch));
    }

    /// Prefetches the memory that a change will touch.
    fn prefetch_change(&self, change: &StateChange, scratch: &mut KeyBuf) {
        let Some((table, entry)) = change.entry() else { return };
        let table = &self.tables[table.index()];
        if let LookupStructure::Exact(exact) = &table.structure {
            exact.prefetch(table.encoder.encode_key(entry.key(), scratch));
        }
    }

    /// Reserves space for all entries of a state.
    pub(crate) fn reserve_for_state(&mut self, state: &ControlState) {
        for (table, id) in self.tables.iter_mut().zip(state.pipeline().tables.keys()) {
            if let LookupStructure::Exact(exact) = &mut table.structure
                && self.held_elsewhere.get(id.index()) != Some(&true)
            {
                exact.reserve(state.entry_count(id));
            }
        }
    }

    fn reserve_for_batch(&mut self, changes: &[StateChange], done: &[bool]) {
        let mut counts = vec![0usize; self.tables.len()];
        for change in changes {
            match change {
                StateChange::Inserted(table, ..) => counts[table.index()] += 1,
                StateChange::Deleted(table, ..) => counts[table.index()] = counts[table.index()].saturating_sub(1),
                _ => {}
            }
        }
        for (at, (table, count)) in self.tables.iter_mut().zip(counts).enumerate() {
            if let LookupStructure::Exact(exact) = &mut table.structure
                && count >= BULK_MIN_CHANGES
                && done.get(at) != Some(&true)
            {
                exact.reserve(count);
            }
        }
    }
}

impl TableLookups {
    /// Inserts an entry, or replaces its value. `entry_id` is its id if values carry it.
    fn insert_entry(&mut self, scratch: &mut EncodeScratch, entry: &StoredEntry, entry_id: Option<u32>) {
        let EncodeScratch { key, value } = scratch;
        if let Some(entry_id) = entry_id {
            self.entry_id_bound = self.entry_id_bound.max(entry_id.saturating_add(1));
        }
        let encoder = &*self.encoder;
        let value = encoder.encode_value(entry.action(), entry_id.unwrap_or(0), value);
        match &mut self.structure {
            // A keyless table never hits an entry.
            LookupStructure::Keyless => {}
            LookupStructure::Exact(exact) => {
                let key = encoder.encode_key(entry.key(), key);
                exact.insert(key, value);
                if self.small_table.as_mut().is_some_and(|small_table| !small_table.insert(key[0], value)) {
                    self.small_table = None;
                }
            }
            LookupStructure::Wide(wide) => wide.insert(encoder.encode_key(entry.key(), key), value),
            LookupStructure::Lpm(lpm, exact_words) => {
                let (exact, prefix) = encoder.encode_key(entry.key(), key).split_at(*exact_words);
                lpm.insert(exact, prefix, encoder.prefix_len(entry.key()), value);
            }
            LookupStructure::Ternary(ternary) => {
                ternary.insert(entry.key(), entry.priority(), entry.sequence(), value);
            }
        }
    }

    /// Removes an entry from the table's structure, and from the copy for small tables.
    fn remove_entry(&mut self, scratch: &mut EncodeScratch, entry: &StoredEntry) {
        let key = &mut scratch.key;
        match &mut self.structure {
            LookupStructure::Keyless => {}
            LookupStructure::Exact(exact) => {
                let key = self.encoder.encode_key(entry.key(), key);
                exact.remove(key);
                if let Some(small_table) = &mut self.small_table {
                    small_table.remove(key[0]);
                }
            }
            LookupStructure::Wide(wide) => wide.remove(self.encoder.encode_key(entry.key(), key)),
            LookupStructure::Lpm(lpm, exact_words) => {
                let (exact, prefix) = self.encoder.encode_key(entry.key(), key).split_at(*exact_words);
                lpm.remove(exact, prefix, self.encoder.prefix_len(entry.key()));
            }
            LookupStructure::Ternary(ternary) => {
                ternary.remove(entry.key(), entry.priority());
            }
        }
    }

    /// Copies the changes that `other` has tracked. Returns whether it did; if so, changes of
    /// entries must not be applied to this table.
    fn catch_up_from(&mut self, other: &TableLookups) -> bool {
        let (LookupStructure::Exact(own), LookupStructure::Exact(exact)) = (&mut self.structure, &other.structure)
        else {
            return false;
        };
        let Some(changed) = own.catch_up_from(exact) else { return false };
        if changed {
            self.entry_id_bound = other.entry_id_bound;
            if self.small_table.is_some() {
                self.small_table = other.small_table.clone();
            }
        }
        true
    }
}

fn share_arc<T>(mine: &mut Arc<T>, state: &Arc<T>) {
    if !Arc::ptr_eq(mine, state) {
        *mine = state.clone();
    }
}
