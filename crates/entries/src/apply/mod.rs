//! Application of a batch of updates, as a whole or not at all.
//! Each update is checked and applied in turn, and all are undone if one is rejected.

mod entries;
mod objects;

use crate::batch::*;
use crate::entry::{MeterConfig, PackedKey, StoredAction, StoredActionRef, UpdateKind};
use crate::error::{EntryError, UpdateError, WriteError};
use crate::profile::{PortStatuses, Profile};
use crate::state::ControlState;
use crate::stored_entry::{EntryFields, StoredEntry};
use crate::validate;
use ir::{ExternId, ExternKind, Pipeline, TableId, ValueSetId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Maximum number of copies that a multicast group or session makes.
pub const MAX_REPLICAS: usize = 1024;

/// Number of updates from which it pays to scan the batch as a whole first.
const BULK_BATCH_LEN: usize = 256;

/// Number of updates of a large batch that are prefetched together before they are applied one by
/// one; about the number of cache misses that a processor handles at a time.
const PREFETCH_AHEAD: usize = 16;

/// Undo record of an update. Updates of entries have none, because the changes contain the old
/// entries.
enum UndoRecord {
    Default(TableId, StoredAction),
    Users((ExternId, bool, u32), u64),
    Profile(ExternId, Arc<Profile>),
    ValueSet(ValueSetId, Arc<Vec<PackedKey>>),
    Meters(Arc<BTreeMap<(ExternId, u64), MeterConfig>>),
    Multicast(Arc<BTreeMap<u32, MulticastGroup>>),
    Clones(Arc<BTreeMap<u32, CloneSession>>),
    ExpireTimes(Arc<BTreeMap<u8, u64>>),
    Ports(PortStatuses),
    Name(SdnStringUpdate),
}

/// A batch that is being applied.
struct Transaction<'a> {
    state: &'a mut ControlState,
    pipeline: &'a Pipeline,
    undo_log: Vec<UndoRecord>,
    changes: Vec<StateChange>,
}

impl ControlState {
    /// Applies a batch and returns the changes, in order. If one update is rejected, nothing
    /// changes.
    pub fn apply(&mut self, batch: &WriteBatch) -> Result<Vec<StateChange>, WriteError> {
        self.apply_into(Vec::new(), batch)
    }

    /// Applies a batch as [`ControlState::apply`] does, appending the changes to `changes`, an
    /// empty vector, to reuse its capacity.
    ///
    /// # Errors
    /// The first rejected update; nothing has changed.
    pub fn apply_into(
        &mut self,
        mut changes: Vec<StateChange>,
        batch: &WriteBatch,
    ) -> Result<Vec<StateChange>, WriteError> {
        let pipeline = self.pipeline.clone();
        let sequence_before = self.sequence;
        let update_count = batch.updates.len();
        self.reserve_for_batch(batch);
        changes.reserve(update_count);
        let mut transaction = Transaction { state: self, pipeline: &pipeline, undo_log: Vec::new(), changes };
        for (index, update) in batch.updates.iter().enumerate() {
            // In a large batch, request the cache lines of the next updates ahead of their use.
            if index % PREFETCH_AHEAD == 0 && update_count >= BULK_BATCH_LEN {
                batch.updates[index..update_count.min(index + PREFETCH_AHEAD)]
                    .iter()
                    .for_each(|update| transaction.prefetch_update(update));
            }
            if let Err(error) = transaction.apply_update(update) {
                transaction.roll_back();
                self.sequence = sequence_before;
                return Err(WriteError { index, error });
            }
        }
        let changes = transaction.changes;
        // A link change that affects no group does not change the version of the tables.
        let is_link_change = |update: &StateUpdate| matches!(update, StateUpdate::Ports(_));
        if !changes.is_empty() || !batch.updates.iter().all(is_link_change) || batch.updates.is_empty() {
            self.version += 1;
        }
        Ok(changes)
    }

    /// Reserves memory for the entries of a large batch at once, because growing step by step would
    /// rehash all entries at each step.
    fn reserve_for_batch(&mut self, batch: &WriteBatch) {
        if batch.updates.len() < BULK_BATCH_LEN {
            return;
        }
        let mut counts = vec![0usize; self.tables.len()];
        for update in &batch.updates {
            let (kind, table) = match update {
                StateUpdate::Entry(kind, entry) => (kind, entry.table),
                StateUpdate::Packed(kind, entry) => (kind, entry.table),
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
            // Entries beyond the table's size will be rejected.
            let max_entries = declared.size.map_or(usize::MAX, |size| usize::try_from(size).unwrap_or(usize::MAX));
            let count = count.min(max_entries.saturating_sub(table.entries.len()));
            if count >= BULK_BATCH_LEN {
                triomphe::Arc::make_mut(table).reserve(count);
            }
        }
    }

    /// Returns the result of [`ControlState::apply`] without applying the batch.
    pub fn check(&self, batch: &WriteBatch) -> Result<(), WriteError> {
        self.clone().apply(batch).map(drop)
    }

    /// Adds an entry for a packet (PNA `add_entry`). Key and arguments are packed and valid, and
    /// all keys are exact. Returns `None` if the key exists, the table is full, or its entries are
    /// const. Otherwise the version of the state advances, as for a write.
    pub fn add_from_data_plane(
        &mut self,
        table: TableId,
        key: PackedKey,
        action: StoredAction,
        idle_timeout_ns: u64,
    ) -> Option<StoredEntry> {
        let declared = self.pipeline.tables.get(table)?;
        let is_full = declared.size.is_some_and(|size| self.entry_count(table) as u64 >= size);
        if is_full || declared.const_entries || self.get_entry(table, &key, 0).is_some() {
            return None;
        }
        self.sequence += 1;
        self.version += 1;
        let entry = StoredEntry::new(EntryFields {
            key: &key,
            priority: 0,
            is_const: false,
            action: action.packed(),
            sequence: self.sequence,
            idle_timeout_ns,
            extras: None,
        });
        let (layout, table_state) = self.table_mut(table);
        table_state.insert(layout, &key, 0, None, || entry.clone()).ok()?;
        Some(entry)
    }

    /// Sets the number of entries of a table that packets have added and that only the engine holds:
    /// they count for the table's size.
    pub fn set_entries_elsewhere(&mut self, table: TableId, count: u64) {
        let (_, table_state) = self.table_mut(table);
        table_state.entries_elsewhere = count;
    }

    /// Sets the idle timeout of an entry whose expire time profile, or the time of that, has changed.
    /// Returns the entry as it is now.
    pub fn set_idle_timeout(&mut self, table: TableId, key: &[u64], idle_timeout_ns: u64) -> Option<StoredEntry> {
        let entry = self.get_entry(table, key, 0)?;
        if entry.idle_timeout_ns() == idle_timeout_ns {
            return Some(entry.clone());
        }
        let entry = entry.with_idle_timeout(idle_timeout_ns);
        let (_, table_state) = self.table_mut(table);
        table_state.replace(entry.clone());
        Some(entry)
    }

    /// Removes an expired entry from a table that deletes idle entries, or the twin of a removed
    /// one. Another entry that has its key by now stays.
    pub fn remove_idle(&mut self, table: TableId, entry: &StoredEntry) {
        let Some(declared) = self.pipeline.tables.get(table) else { return };
        let implementation = declared.implementation;
        let (layout, table_state) = self.table_mut(table);
        let is_same = |there: &StoredEntry| if there.sequence() == entry.sequence() { Ok(()) } else { Err(()) };
        if !matches!(table_state.remove_if(layout, entry.key(), entry.priority(), is_same), Ok(Some(_))) {
            return;
        }
        self.version += 1;
        let (Some(profile), Some((group, id))) = (implementation, member_of(entry.action())) else { return };
        if let Some(users) = Arc::make_mut(&mut self.users).get_mut(&(profile, group, id)) {
            *users = users.saturating_sub(1);
        }
    }
}

/// Returns the member (`false`) or group (`true`) that an action names.
fn member_of(action: StoredActionRef<'_>) -> Option<(bool, u32)> {
    match action {
        StoredActionRef::Call(..) => None,
        StoredActionRef::Member(id) => Some((false, id)),
        StoredActionRef::Group(id) => Some((true, id)),
    }
}

impl Transaction<'_> {
    /// Prefetches the memory that an update will access. The update is not validated yet.
    fn prefetch_update(&self, update: &StateUpdate) {
        if let StateUpdate::Packed(_, entry) = update
            && let Some(table) = self.state.tables.get(entry.table.0 as usize)
        {
            table.prefetch(entry.key(), entry.priority);
        }
    }

    /// Checks and applies one update, and records the change and how to undo it. After an error,
    /// the transaction is rolled back.
    fn apply_update(&mut self, update: &StateUpdate) -> Result<(), UpdateError> {
        match update {
            StateUpdate::Packed(kind, entry) => self.apply_packed_entry(*kind, entry)?,
            StateUpdate::Entry(kind, entry) => self.apply_entry(*kind, entry)?,
            StateUpdate::DefaultAction(table, spec) => self.set_default_action(*table, spec.as_ref())?,
            StateUpdate::Member(kind, member) => self.apply_member(*kind, member)?,
            StateUpdate::Group(kind, group) => self.apply_group(*kind, group)?,
            StateUpdate::ValueSet(set, members) => self.set_value_set(*set, members)?,
            StateUpdate::Meter(meter, index, config) => self.set_meter(*meter, *index, config.as_ref())?,
            StateUpdate::DirectMeter(id, config) => self.set_direct_meter(id, config.as_ref())?,
            StateUpdate::Counter(counter, index, data) => {
                let size = |kind: &ExternKind| match kind {
                    ExternKind::Counter { size, .. } => Some(*size),
                    _ => None,
                };
                self.check_index(*counter, *index, "counter", size)?;
                self.changes.push(StateChange::Counter(*counter, *index, *data));
            }
            StateUpdate::DirectCounter(id, data) => {
                let table = validate::find_table(self.pipeline, id.table)?;
                if table.direct_counter.is_none() {
                    return Err(EntryError::NoDirectCounter { table: table.preamble.name.clone() }.into());
                }
                let entry = self.existing_entry(id)?;
                self.changes.push(StateChange::DirectCounter(id.table, entry, *data));
            }
            StateUpdate::Register(register, index, values) => self.set_register(*register, *index, values)?,
            StateUpdate::Multicast(kind, group) => self.apply_multicast_group(*kind, group)?,
            StateUpdate::Clone(kind, session) => self.apply_clone_session(*kind, session)?,
            StateUpdate::ExpireTime(profile, time) => {
                self.undo_log.push(UndoRecord::ExpireTimes(self.state.expire_times.clone()));
                Arc::make_mut(&mut self.state.expire_times).insert(*profile, *time);
                self.changes.push(StateChange::ExpireTime(*profile));
            }
            StateUpdate::Ports(ports) => self.apply_ports(ports.as_ref()),
            StateUpdate::SdnString(naming) => {
                let value = self.state.sdn_strings.apply_update(naming)?;
                self.undo_log.push(UndoRecord::Name(SdnStringUpdate { value, ..naming.clone() }));
            }
        }
        Ok(())
    }

    /// Undoes all updates so far, the last first: inverts the changes of entries, and restores
    /// other objects from their saved states.
    fn roll_back(self) {
        let state = self.state;
        for change in self.changes.into_iter().rev() {
            let Some((table, _)) = change.entry() else { continue };
            let (layout, table_state) = state.table_mut(table);
            match change {
                StateChange::Inserted(_, entry, _) => drop(table_state.remove(layout, entry.key(), entry.priority())),
                StateChange::Modified(_, old, ..) => drop(table_state.replace(old)),
                StateChange::Deleted(_, entry) => {
                    let restored = table_state.insert(layout, entry.key(), entry.priority(), None, || entry.clone());
                    debug_assert!(restored.is_ok(), "it was there before");
                }
                _ => {}
            }
        }
        for step in self.undo_log.into_iter().rev() {
            match step {
                UndoRecord::Default(table, action) => state.table_mut(table).1.default = action,
                UndoRecord::Users(key, count) => {
                    Arc::make_mut(&mut state.users).insert(key, count);
                }
                UndoRecord::Profile(id, profile) => {
                    state.profiles.insert(id, profile);
                }
                UndoRecord::ValueSet(id, members) => state.value_sets[id.0 as usize] = members,
                UndoRecord::Meters(meters) => state.meters = meters,
                UndoRecord::Multicast(groups) => state.multicast = groups,
                UndoRecord::Clones(sessions) => state.clones = sessions,
                UndoRecord::ExpireTimes(times) => state.expire_times = times,
                UndoRecord::Ports(ports) => state.ports = ports,
                UndoRecord::Name(naming) => state.sdn_strings.set_string(&naming),
            }
        }
    }
}
