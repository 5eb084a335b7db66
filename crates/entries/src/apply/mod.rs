//! Applying a batch: each update is checked and made in turn, and all are taken back if one is refused.

mod entries;
mod objects;

use crate::batch::*;
use crate::entry::{Action, MeterConfig, PackedAction, PackedKey, UpdateKind};
use crate::error::{EntryError, UpdateError, WriteError};
use crate::kept::{Entry, Parts};
use crate::profile::{Ports, Profile};
use crate::state::State;
use crate::validate;
use ir::{ExternId, ExternKind, Pipeline, TableId, ValueSetId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The most copies that a multicast group or session makes.
pub const MAX_REPLICAS: usize = 1024;

/// From so many updates on it pays to look at the batch as a whole first.
const BULK: usize = 256;

/// For so many updates of a large batch memory is asked for before they are looked at one by one: as many as a processor waits for at a
/// time.
const SOON: usize = 16;

/// How to take a step back, but for entries: what was done to them is in the changes.
enum Undo {
    Default(TableId, Action),
    Users((ExternId, bool, u32), u64),
    Profile(ExternId, Arc<Profile>),
    ValueSet(ValueSetId, Arc<Vec<PackedKey>>),
    Meters(Arc<BTreeMap<(ExternId, u64), MeterConfig>>),
    Multicast(Arc<BTreeMap<u32, MulticastGroup>>),
    Clones(Arc<BTreeMap<u32, CloneSession>>),
    ExpireTimes(Arc<BTreeMap<u8, u64>>),
    Ports(Ports),
    Name(Naming),
}

/// A batch that is being applied.
struct Transaction<'a> {
    state: &'a mut State,
    pipeline: &'a Pipeline,
    undo: Vec<Undo>,
    changes: Vec<Change>,
}

impl State {
    /// Applies a batch and returns what has changed, in order. If one update is refused, nothing has changed.
    pub fn apply(&mut self, batch: &WriteBatch) -> Result<Vec<Change>, WriteError> {
        self.apply_into(Vec::new(), batch)
    }

    /// As [`State::apply`], with the changes in a vector that is empty and has room.
    ///
    /// # Errors
    /// As there.
    pub fn apply_into(&mut self, mut changes: Vec<Change>, batch: &WriteBatch) -> Result<Vec<Change>, WriteError> {
        let pipeline = self.pipeline.clone();
        let sequence = self.sequence;
        let capacity = batch.updates.len();
        self.make_room(batch);
        changes.reserve(capacity);
        let mut transaction = Transaction { state: self, pipeline: &pipeline, undo: Vec::new(), changes };
        for (index, update) in batch.updates.iter().enumerate() {
            if index % SOON == 0 && capacity >= BULK {
                batch.updates[index..capacity.min(index + SOON)].iter().for_each(|update| transaction.expect(update));
            }
            if let Err(error) = transaction.update(update) {
                transaction.roll_back();
                self.sequence = sequence;
                return Err(WriteError { index, error });
            }
        }
        let changes = transaction.changes;
        // That links have changed on which nothing depends is no version of the tables.
        let of_ports = |update: &Update| matches!(update, Update::Ports(_));
        if !changes.is_empty() || !batch.updates.iter().all(of_ports) || batch.updates.is_empty() {
            self.version += 1;
        }
        Ok(changes)
    }

    /// Makes room for the entries of a large batch at once: growing step by step would hash all entries at each step.
    fn make_room(&mut self, batch: &WriteBatch) {
        if batch.updates.len() < BULK {
            return;
        }
        let mut counts = vec![0usize; self.tables.len()];
        for update in &batch.updates {
            let (kind, table) = match update {
                Update::Entry(kind, entry) => (kind, entry.table),
                Update::Packed(kind, entry) => (kind, entry.table),
                _ => continue,
            };
            let Some(count) = counts.get_mut(table.0 as usize) else { continue };
            match kind {
                UpdateKind::Insert => *count += 1,
                UpdateKind::Modify => {}
                UpdateKind::Delete => *count = count.saturating_sub(1),
            }
        }
        for ((table, count), declared) in self.tables.iter_mut().zip(counts).zip(self.pipeline.tables.values()) {
            // What is beyond the table's size will be refused.
            let most = declared.size.map_or(usize::MAX, |size| usize::try_from(size).unwrap_or(usize::MAX));
            let count = count.min(most.saturating_sub(table.entries.len()));
            if count >= BULK {
                triomphe::Arc::make_mut(table).reserve(count);
            }
        }
    }

    /// What [`State::apply`] would say, without a change.
    pub fn check(&self, batch: &WriteBatch) -> Result<(), WriteError> {
        self.clone().apply(batch).map(drop)
    }

    /// Adds an entry that a packet asked for (PNA `add_entry`); key and arguments are packed and fit, all keys are exact.
    /// `None` if the key is there already, the table is full, or its entries are const.
    pub fn add_from_data_plane(
        &mut self,
        table: TableId,
        key: PackedKey,
        action: Action,
        idle_timeout_ns: u64,
    ) -> Option<Entry> {
        let declared = self.pipeline.tables.get(table)?;
        let full = declared.size.is_some_and(|size| self.entry_count(table) as u64 >= size);
        if full || declared.const_entries || self.find(table, &key, 0).is_some() {
            return None;
        }
        self.sequence += 1;
        self.version += 1;
        let entry = Entry::new(Parts {
            key: &key,
            priority: 0,
            is_const: false,
            action: action.packed(),
            sequence: self.sequence,
            idle_timeout_ns,
            rare: None,
        });
        let (layout, place) = self.place(table);
        place.insert(layout, &key, 0, None, || entry.clone()).ok()?;
        Some(entry)
    }

    /// Takes out an entry whose idle time has passed in a table that deletes such entries.
    pub fn remove_idle(&mut self, table: TableId, entry: &Entry) {
        let Some(declared) = self.pipeline.tables.get(table) else { return };
        let implementation = declared.implementation;
        let (layout, place) = self.place(table);
        if place.remove(layout, entry.key(), entry.priority()).is_none() {
            return;
        }
        self.version += 1;
        let (Some(profile), Some((group, id))) = (implementation, member_of(entry.action())) else { return };
        if let Some(users) = Arc::make_mut(&mut self.users).get_mut(&(profile, group, id)) {
            *users = users.saturating_sub(1);
        }
    }
}

/// The member (`false`) or group (`true`) that an action names.
fn member_of(action: PackedAction<'_>) -> Option<(bool, u32)> {
    match action {
        PackedAction::Call(..) => None,
        PackedAction::Member(id) => Some((false, id)),
        PackedAction::Group(id) => Some((true, id)),
    }
}

impl Transaction<'_> {
    /// Asks for the memory that an update will touch. What it says is not looked at yet.
    fn expect(&self, update: &Update) {
        if let Update::Packed(_, entry) = update
            && let Some(table) = self.state.tables.get(entry.table.0 as usize)
        {
            table.expect(entry.key(), entry.priority);
        }
    }

    fn update(&mut self, update: &Update) -> Result<(), UpdateError> {
        match update {
            Update::Packed(kind, entry) => self.packed(*kind, entry)?,
            Update::Entry(kind, entry) => self.entry(*kind, entry)?,
            Update::DefaultAction(table, spec) => self.default_action(*table, spec.as_ref())?,
            Update::Member(kind, member) => self.member(*kind, member)?,
            Update::Group(kind, group) => self.group(*kind, group)?,
            Update::ValueSet(set, members) => self.value_set(*set, members)?,
            Update::Meter(meter, index, config) => self.meter(*meter, *index, config.as_ref())?,
            Update::DirectMeter(id, config) => self.direct_meter(id, config.as_ref())?,
            Update::Counter(counter, index, data) => {
                let size = |kind: &ExternKind| match kind {
                    ExternKind::Counter { size, .. } => Some(*size),
                    _ => None,
                };
                self.index(*counter, *index, "counter", size)?;
                self.changes.push(Change::Counter(*counter, *index, *data));
            }
            Update::DirectCounter(id, data) => {
                let table = validate::table(self.pipeline, id.table)?;
                if table.direct_counter.is_none() {
                    return Err(EntryError::NoDirectCounter { table: table.preamble.name.clone() }.into());
                }
                let entry = self.existing(id)?;
                self.changes.push(Change::DirectCounter(id.table, entry, *data));
            }
            Update::Register(register, index, values) => self.register(*register, *index, values)?,
            Update::Multicast(kind, group) => self.multicast(*kind, group)?,
            Update::Clone(kind, session) => self.clone_session(*kind, session)?,
            Update::ExpireTime(profile, time) => {
                self.undo.push(Undo::ExpireTimes(self.state.expire_times.clone()));
                Arc::make_mut(&mut self.state.expire_times).insert(*profile, *time);
                self.changes.push(Change::ExpireTime(*profile));
            }
            Update::Ports(ports) => self.ports(ports.as_ref()),
            Update::Name(naming) => {
                let value = self.state.names.apply(naming)?;
                self.undo.push(Undo::Name(Naming { value, ..naming.clone() }));
            }
        }
        Ok(())
    }

    fn roll_back(self) {
        let state = self.state;
        for change in self.changes.into_iter().rev() {
            let Some((table, _)) = change.entry() else { continue };
            let (layout, place) = state.place(table);
            match change {
                Change::Inserted(_, entry, _) => drop(place.remove(layout, entry.key(), entry.priority())),
                Change::Modified(_, old, ..) => drop(place.replace(old)),
                Change::Deleted(_, entry) => {
                    let there = place.insert(layout, entry.key(), entry.priority(), None, || entry.clone());
                    debug_assert!(there.is_ok(), "it was there before");
                }
                _ => {}
            }
        }
        for step in self.undo.into_iter().rev() {
            match step {
                Undo::Default(table, action) => state.place(table).1.default = action,
                Undo::Users(key, count) => {
                    Arc::make_mut(&mut state.users).insert(key, count);
                }
                Undo::Profile(id, profile) => {
                    state.profiles.insert(id, profile);
                }
                Undo::ValueSet(id, members) => state.value_sets[id.0 as usize] = members,
                Undo::Meters(meters) => state.meters = meters,
                Undo::Multicast(groups) => state.multicast = groups,
                Undo::Clones(sessions) => state.clones = sessions,
                Undo::ExpireTimes(times) => state.expire_times = times,
                Undo::Ports(ports) => state.ports = ports,
                Undo::Name(naming) => state.names.set(&naming),
            }
        }
    }
}
