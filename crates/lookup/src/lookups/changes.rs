//! How a copy of the lookups changes: as the state has, or as the other copy has.

use super::{Lookups, NumberedChanges, Structure, TableLookups};
use crate::encode::{KeyRoom, ValueRoom};
use crate::exact::ExactTable;
use entries::Change;
use entries::Entry;
use entries::State;
use ir::{Entity, ExternId};
use smallvec::SmallVec;
use std::sync::Arc;

/// From so many insertions on it pays to make room for all of them first.
const BULK: usize = 1024;

/// How many changes ahead of its turn the memory of one is asked for.
const AHEAD: usize = 8;

/// Room for a key and a value while they are made.
#[derive(Default)]
struct Room {
    key: KeyRoom,
    value: ValueRoom,
}

impl Lookups {
    /// Carries out changes that the state has accepted; `state` is as they, and perhaps later ones, have left it.
    ///
    /// What is named only by its number is brought in line with that state, so that this copy is right again when all
    /// changes up to the state are carried out, in order.
    pub(crate) fn apply(&mut self, state: &State, batch: &NumberedChanges) {
        self.apply_but(state, batch, &[]);
    }

    /// Begins to note what changes in tables, so that the other copy can [follow](Self::follow).
    pub(crate) fn note_changes(&mut self) {
        self.exact_tables().for_each(ExactTable::note_changes);
    }

    /// Forgets what was noted: the other copy has followed.
    pub(crate) fn forget_changes(&mut self) {
        self.exact_tables().for_each(ExactTable::forget_changes);
    }

    fn exact_tables(&mut self) -> impl Iterator<Item = &mut ExactTable> {
        self.tables.iter_mut().filter_map(|table| match &mut table.structure {
            Structure::Exact(exact) => Some(exact),
            _ => None,
        })
    }

    /// Carries out changes that `other` is ahead by: those that it has noted since it was equal to this copy, and only those, by taking over what they came
    /// to, all else as [`Lookups::apply`] does.
    pub(crate) fn follow(&mut self, other: &Lookups, state: &State, behind: &[Arc<NumberedChanges>]) {
        let done: SmallVec<[bool; 64]> =
            self.tables.iter_mut().zip(&other.tables).map(|(own, other)| own.follow(other)).collect();
        behind.iter().for_each(|batch| self.apply_but(state, batch, &done));
    }

    /// Carries out changes but those of entries of tables that are `done`.
    fn apply_but(&mut self, state: &State, batch: &NumberedChanges, done: &[bool]) {
        let mut groups = Vec::new();
        let mut room = Room::default();
        let is_done = |change: &Change| change.entry().is_some_and(|(table, _)| done.get(table.index()) == Some(&true));
        if batch.changes.len() >= BULK {
            self.reserve(&batch.changes, done);
            self.expect(batch);
        }
        for (index, change) in batch.changes.iter().enumerate() {
            if is_done(change) {
                continue;
            }
            if let Some((_, entry)) = batch.changes.get(index + 2 * AHEAD).and_then(Change::entry) {
                entry.expect();
            }
            if let Some(soon) = batch.changes.get(index + AHEAD) {
                self.prefetch(soon, &mut room.key);
            }
            let number = batch.number(index);
            match change {
                Change::Inserted(table, entry, _) => self.tables[table.index()].put(&mut room, entry, number),
                Change::Modified(table, old, new, _) if old.action() != new.action() => {
                    self.tables[table.index()].put(&mut room, new, number);
                }
                Change::Deleted(table, entry) => self.tables[table.index()].remove(&mut room, entry),
                Change::DefaultAction(table) => self.tables[table.index()].set_default(state.default_action(*table)),
                Change::Member(profile, id) => self.member(state, *profile, *id),
                Change::Group(profile, id) => groups.push((*profile, *id)),
                Change::ValueSet(set) => {
                    self.value_sets[set.index()].set(state.shared_objects().value_sets[set.index()].clone());
                }
                // Shared with the state: below. Values of counters and registers are the engine's.
                _ => {}
            }
        }
        // Behind the members, so that no group is made of members that come later in the batch.
        for (profile, id) in groups {
            if let (Some(profile), Some(members)) = (state.profile(profile), self.profiles.get_mut(profile.index())) {
                members.update_group(profile, id);
            }
        }
        if batch.changes.len() >= BULK {
            self.tidy(batch.changes.len());
        }
        let objects = state.shared_objects();
        share(&mut self.multicast, objects.multicast);
        share(&mut self.clones, objects.clones);
        share(&mut self.meters, objects.meters);
        share(&mut self.expire_times, objects.expire_times);
        self.version = state.version();
    }

    fn member(&mut self, state: &State, id: ExternId, member: u32) {
        let (Some(profile), Some(members)) = (state.profile(id), self.profiles.get_mut(id.index())) else { return };
        let users = self.tables.iter_mut().filter(|table| table.profile == Some(id));
        members.update_member(profile, member, users.map(|table| (&*table.encoder, &mut table.members)));
    }

    /// The rearranging that single changes would do bit by bit: at most that many pieces of some microseconds. Whether more is due.
    pub(crate) fn tidy(&mut self, pieces: usize) -> bool {
        let mut left = pieces;
        for table in &mut self.tables {
            if let Structure::Ternary(ternary) = &mut table.structure {
                while left > 0 && ternary.tidy() {
                    left -= 1;
                }
            }
        }
        !self.is_tidy()
    }

    /// Asks for the memory that the first changes of a batch will touch, which will soon be applied. Those behind them ask in turn.
    pub(crate) fn expect(&self, batch: &NumberedChanges) {
        let mut room = KeyRoom::new();
        batch.changes.iter().take(AHEAD).for_each(|change| self.prefetch(change, &mut room));
    }

    /// Asks for the memory that a change will touch.
    fn prefetch(&self, change: &Change, room: &mut KeyRoom) {
        let Some((table, entry)) = change.entry() else { return };
        let table = &self.tables[table.index()];
        if let Structure::Exact(exact) = &table.structure {
            exact.prefetch(table.encoder.key(entry.key(), room));
        }
    }

    /// Makes room for all entries of a state.
    pub(crate) fn make_room(&mut self, state: &State) {
        for (table, id) in self.tables.iter_mut().zip(state.pipeline().tables.keys()) {
            if let Structure::Exact(exact) = &mut table.structure {
                exact.reserve(state.entry_count(id));
            }
        }
    }

    fn reserve(&mut self, changes: &[Change], done: &[bool]) {
        let mut counts = vec![0usize; self.tables.len()];
        for change in changes {
            match change {
                Change::Inserted(table, ..) => counts[table.index()] += 1,
                Change::Deleted(table, ..) => counts[table.index()] = counts[table.index()].saturating_sub(1),
                _ => {}
            }
        }
        for (at, (table, count)) in self.tables.iter_mut().zip(counts).enumerate() {
            if let Structure::Exact(exact) = &mut table.structure
                && count >= BULK
                && done.get(at) != Some(&true)
            {
                exact.reserve(count);
            }
        }
    }
}

impl TableLookups {
    /// Adds an entry, or changes what it does.
    fn put(&mut self, room: &mut Room, entry: &Entry, number: Option<u32>) {
        let Room { key, value } = room;
        if let Some(number) = number {
            self.entry_ids = self.entry_ids.max(number.saturating_add(1));
        }
        let encoder = &*self.encoder;
        let value = encoder.value(entry.action(), number.unwrap_or(0), value);
        match &mut self.structure {
            // Nothing is ever hit.
            Structure::Keyless => {}
            Structure::Exact(exact) => {
                let key = encoder.key(entry.key(), key);
                exact.insert(key, value);
                if self.few.as_mut().is_some_and(|few| !few.insert(key[0], value)) {
                    self.few = None;
                }
            }
            Structure::Wide(wide) => wide.insert(encoder.key(entry.key(), key), value),
            Structure::Lpm(lpm, exact_words) => {
                let (exact, prefix) = encoder.key(entry.key(), key).split_at(*exact_words);
                lpm.insert(exact, prefix, encoder.prefix_len(entry.key()), value);
            }
            Structure::Ternary(ternary) => {
                ternary.insert(entry.key(), entry.priority(), entry.sequence(), value);
            }
        }
    }

    fn remove(&mut self, room: &mut Room, entry: &Entry) {
        let key = &mut room.key;
        match &mut self.structure {
            Structure::Keyless => {}
            Structure::Exact(exact) => {
                let key = self.encoder.key(entry.key(), key);
                exact.remove(key);
                if let Some(few) = &mut self.few {
                    few.remove(key[0]);
                }
            }
            Structure::Wide(wide) => wide.remove(self.encoder.key(entry.key(), key)),
            Structure::Lpm(lpm, exact_words) => {
                let (exact, prefix) = self.encoder.key(entry.key(), key).split_at(*exact_words);
                lpm.remove(exact, prefix, self.encoder.prefix_len(entry.key()));
            }
            Structure::Ternary(ternary) => {
                ternary.remove(entry.key(), entry.priority());
            }
        }
    }

    /// Takes over from `other` what it has noted. Whether it has, so that changes of entries need not be done to this table.
    fn follow(&mut self, other: &TableLookups) -> bool {
        let (Structure::Exact(own), Structure::Exact(exact)) = (&mut self.structure, &other.structure) else {
            return false;
        };
        let Some(changed) = own.follow(exact) else { return false };
        if changed {
            self.entry_ids = other.entry_ids;
            if self.few.is_some() {
                self.few = other.few.clone();
            }
        }
        true
    }
}

fn share<T>(mine: &mut Arc<T>, state: &Arc<T>) {
    if !Arc::ptr_eq(mine, state) {
        *mine = state.clone();
    }
}
