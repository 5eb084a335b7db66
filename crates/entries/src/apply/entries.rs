//! Updates of entries and default actions.

use super::{Transaction, UndoRecord, member_of};
use crate::batch::*;
use crate::entry::{ActionSpec, MeterConfig, PackedKey, StoredAction, StoredActionRef, TableEntry, UpdateKind};
use crate::error::EntryError;
use crate::layout::pack_args;
use crate::packed::PackedEntry;
use crate::packer;
use crate::state::InsertError;
use crate::stored_entry::StoredEntry;
use crate::validate;
use ir::{Pipeline, Table, TableId};
use packet::Counter;
use std::sync::Arc;

impl Transaction<'_> {
    /// Packs an entry in the control plane's form and applies it.
    pub(super) fn apply_entry(&mut self, kind: UpdateKind, given: &TableEntry) -> Result<(), EntryError> {
        mutable_table(self.pipeline, given.table)?;
        let packed = packer::pack_entry(self.pipeline, self.state.layout(given.table), kind, given)?;
        self.apply_packed_entry(kind, &packed)
    }

    /// Validates an entry and applies the update.
    pub(super) fn apply_packed_entry(&mut self, kind: UpdateKind, given: &PackedEntry) -> Result<(), EntryError> {
        let table = mutable_table(self.pipeline, given.table)?;
        validate::check_attributes(table, given, kind)?;
        validate::check_keys(&table.preamble.name, &table.keys, self.state.layout(given.table), given.key())?;
        match kind {
            UpdateKind::Insert => self.insert_entry(table, given),
            UpdateKind::Modify => self.modify_entry(table, given),
            UpdateKind::Delete => self.delete_entry(table, given),
        }
    }

    pub(super) fn pack_entry_key(&self, table: TableId, keys: &[ir::KeyMatch]) -> Result<PackedKey, EntryError> {
        let declared = validate::find_table(self.pipeline, table)?;
        packer::pack_valid_keys(&declared.preamble.name, &declared.keys, self.state.layout(table), keys)
    }

    pub(super) fn existing_entry(&self, id: &EntryId) -> Result<StoredEntry, EntryError> {
        let key = self.pack_entry_key(id.table, &id.keys)?;
        let found = self.state.get_entry(id.table, &key, id.priority).cloned();
        found.ok_or_else(|| self.not_found_error(id.table, &key, id.priority))
    }

    /// Inserts the entry `packed`, with a valid key and attributes, after checking its action, and
    /// records the change. A second entry with its key and priority is an error, as is a full
    /// table.
    fn insert_entry(&mut self, table: &Table, packed: &PackedEntry) -> Result<(), EntryError> {
        let id = packed.table;
        self.check_action(table, packed.action(), false)?;
        let sequence = self.state.sequence + 1;
        let (layout, table_state) = self.state.table_mut(id);
        let changes = &mut self.changes;
        // The entry is written completely before its index slot, because the write of the slot can
        // stall, and incrementing a reference count waits for all earlier writes.
        let inserted = table_state.insert(layout, packed.key(), packed.priority, table.size, || {
            let entry = packed.to_stored(sequence);
            changes.push(StateChange::Inserted(id, entry.clone(), packed.counter.unwrap_or_default()));
            entry
        });
        inserted.map_err(|error| {
            let name = table.preamble.name.clone();
            match error {
                InsertError::Full(size) => EntryError::Full { table: name, size },
                InsertError::Duplicate => {
                    let entry = self.state.describe_entry(id, packed.key(), packed.priority);
                    EntryError::Duplicate { table: name, entry }
                }
            }
        })?;
        self.state.sequence = sequence;
        self.count_action_use(table, packed.action(), true);
        Ok(())
    }

    fn modify_entry(&mut self, table: &Table, given: &PackedEntry) -> Result<(), EntryError> {
        let found = self.state.get_entry(given.table, given.key(), given.priority).cloned();
        let old = found.ok_or_else(|| self.not_found_error(given.table, given.key(), given.priority))?;
        self.check_action(table, given.action(), false)?;
        if old.is_const() {
            return Err(self.const_entry_error(table, given.table, given.key(), given.priority));
        }
        let new = given.to_stored(old.sequence());
        self.count_action_use(table, old.action(), false);
        self.count_action_use(table, new.action(), true);
        self.replace_entry(given.table, old, new, given.counter);
        Ok(())
    }

    fn replace_entry(&mut self, id: TableId, old: StoredEntry, new: StoredEntry, counter: Option<Counter>) {
        let (_, table_state) = self.state.table_mut(id);
        table_state.replace(new.clone());
        self.changes.push(StateChange::Modified(id, old, new, counter));
    }

    fn delete_entry(&mut self, table: &Table, given: &PackedEntry) -> Result<(), EntryError> {
        let id = given.table;
        let (layout, table_state) = self.state.table_mut(id);
        let check = |entry: &StoredEntry| if entry.is_const() { Err(()) } else { Ok(()) };
        let removed = table_state.remove_if(layout, given.key(), given.priority, check);
        let removed = removed.map_err(|()| self.const_entry_error(table, id, given.key(), given.priority))?;
        let old = removed.ok_or_else(|| self.not_found_error(id, given.key(), given.priority))?;
        self.count_action_use(table, old.action(), false);
        self.changes.push(StateChange::Deleted(id, old));
        Ok(())
    }

    /// Checks an action, including the existence of its member or group; `is_default` says that it
    /// becomes the table's default action.
    pub(super) fn check_action(
        &self,
        table: &Table,
        action: StoredActionRef<'_>,
        is_default: bool,
    ) -> Result<(), EntryError> {
        validate::check_action(self.pipeline, table, action, is_default)?;
        let Some(id) = table.implementation else { return Ok(()) };
        let names = || (table.preamble.name.clone(), self.pipeline.externs[id].preamble.name.clone());
        let profile = self.state.profile(id);
        match action {
            StoredActionRef::Member(member) if !profile.is_some_and(|p| p.members.contains_key(&member)) => {
                let (table, profile) = names();
                Err(EntryError::UnknownMember { table, profile, member })
            }
            StoredActionRef::Group(group) if !profile.is_some_and(|p| p.groups.contains_key(&group)) => {
                let (table, profile) = names();
                Err(EntryError::UnknownGroup { table, profile, group })
            }
            _ => Ok(()),
        }
    }

    /// Counts a new use of a member or group, or the end of a use.
    pub(super) fn count_action_use(&mut self, table: &Table, action: StoredActionRef<'_>, is_added: bool) {
        let (Some(profile), Some((group, id))) = (table.implementation, member_of(action)) else { return };
        let key = (profile, group, id);
        let users = Arc::make_mut(&mut self.state.users);
        let count = users.entry(key).or_default();
        self.undo_log.push(UndoRecord::Users(key, *count));
        *count = if is_added { *count + 1 } else { count.saturating_sub(1) };
    }

    fn const_entry_error(&self, table: &Table, id: TableId, key: &[u64], priority: i32) -> EntryError {
        let entry = self.state.describe_entry(id, key, priority);
        EntryError::ConstEntry { table: table.preamble.name.clone(), entry }
    }

    fn not_found_error(&self, id: TableId, key: &[u64], priority: i32) -> EntryError {
        let table = self.pipeline.tables[id].preamble.name.clone();
        EntryError::NotFound { table, entry: self.state.describe_entry(id, key, priority) }
    }

    /// Sets the default action of table `id`; `None` restores that of the program, which is valid
    /// and can be set even if it is `const`.
    pub(super) fn set_default_action(&mut self, id: TableId, spec: Option<&ActionSpec>) -> Result<(), EntryError> {
        let pipeline = self.pipeline;
        let table = validate::find_table(pipeline, id)?;
        let action = match spec {
            Some(_) if table.const_default => {
                return Err(EntryError::ConstDefault { table: table.preamble.name.clone() });
            }
            Some(ActionSpec::Call(call)) => packer::pack_call(pipeline, table, call, true)?,
            Some(ActionSpec::Member(id)) => StoredAction::Member(*id),
            Some(ActionSpec::Group(id)) => StoredAction::Group(*id),
            None => {
                let call = &table.default_action;
                StoredAction::Call(call.action, pack_args(pipeline, call.action, &call.args))
            }
        };
        if spec.is_some() {
            self.check_action(table, action.packed(), true)?;
        }
        let (_, table_state) = self.state.table_mut(id);
        let previous = std::mem::replace(&mut table_state.default, action.clone());
        self.count_action_use(table, previous.packed(), false);
        self.count_action_use(table, action.packed(), true);
        self.undo_log.push(UndoRecord::Default(id, previous));
        self.changes.push(StateChange::DefaultAction(id));
        Ok(())
    }

    pub(super) fn set_direct_meter(&mut self, id: &EntryId, config: Option<&MeterConfig>) -> Result<(), EntryError> {
        let pipeline = self.pipeline;
        let table = validate::find_table(pipeline, id.table)?;
        let name = || table.preamble.name.clone();
        if table.direct_meter.is_none() {
            return Err(EntryError::NoDirectMeter { table: name() });
        }
        if let Some(config) = config {
            validate::check_meter(config).map_err(|source| EntryError::Meter { table: name(), source })?;
        }
        let old = self.existing_entry(id)?;
        // The meters of const entries can be configured, because only the match and the action are
        // const.
        let new = old.with_meter(config.copied());
        self.replace_entry(id.table, old, new, None);
        Ok(())
    }
}

/// Returns the table, if its entries can be changed.
fn mutable_table(pipeline: &Pipeline, id: TableId) -> Result<&Table, EntryError> {
    let table = validate::find_table(pipeline, id)?;
    match table.const_entries {
        true => Err(EntryError::ConstTable { table: table.preamble.name.clone() }),
        false => Ok(table),
    }
}
