//! Entries and default actions.

use super::{Transaction, Undo, member_of};
use crate::batch::*;
use crate::entry::{Action, ActionSpec, MeterConfig, PackedAction, PackedKey, TableEntry, UpdateKind};
use crate::error::EntryError;
use crate::kept::Entry;
use crate::layout::pack_args;
use crate::packed::PackedEntry;
use crate::packer;
use crate::state::NoRoom;
use crate::validate;
use ir::{Pipeline, Table, TableId};
use packet::Counter;
use std::sync::Arc;

impl Transaction<'_> {
    /// An entry in the control plane's form: it is packed, and from there on is like any other.
    pub(super) fn entry(&mut self, kind: UpdateKind, given: &TableEntry) -> Result<(), EntryError> {
        changeable(self.pipeline, given.table)?;
        let packed = packer::pack(self.pipeline, self.state.layout(given.table), kind, given)?;
        self.packed(kind, &packed)
    }

    /// Checks an entry and makes the change.
    pub(super) fn packed(&mut self, kind: UpdateKind, given: &PackedEntry) -> Result<(), EntryError> {
        let table = changeable(self.pipeline, given.table)?;
        validate::attributes(table, given, kind)?;
        validate::keys(&table.preamble.name, &table.keys, self.state.layout(given.table), given.key())?;
        match kind {
            UpdateKind::Insert => self.insert(table, given),
            UpdateKind::Modify => self.modify(table, given),
            UpdateKind::Delete => self.delete(table, given),
        }
    }

    pub(super) fn packed_key(&self, table: TableId, keys: &[ir::KeyMatch]) -> Result<PackedKey, EntryError> {
        let declared = validate::table(self.pipeline, table)?;
        packer::packed_keys(&declared.preamble.name, &declared.keys, self.state.layout(table), keys)
    }

    pub(super) fn existing(&self, id: &EntryId) -> Result<Entry, EntryError> {
        let key = self.packed_key(id.table, &id.keys)?;
        let found = self.state.find(id.table, &key, id.priority).cloned();
        found.ok_or_else(|| self.not_found(id.table, &key, id.priority))
    }

    fn insert(&mut self, table: &Table, given: &PackedEntry) -> Result<(), EntryError> {
        let id = given.table;
        self.action(table, given.action(), false)?;
        let sequence = self.state.sequence + 1;
        let (layout, place) = self.state.place(id);
        let changes = &mut self.changes;
        // All that is written of the entry is written before its place in the index, for which a processor may have to wait: who counts a holder waits for all writes
        // before.
        let made = place.insert(layout, given.key(), given.priority, table.size, || {
            let entry = given.kept(sequence);
            changes.push(Change::Inserted(id, entry.clone(), given.counter.unwrap_or_default()));
            entry
        });
        made.map_err(|no_room| {
            let name = table.preamble.name.clone();
            match no_room {
                NoRoom::Full(size) => EntryError::Full { table: name, size },
                NoRoom::Duplicate => {
                    let entry = self.state.describe(id, given.key(), given.priority);
                    EntryError::Duplicate { table: name, entry }
                }
            }
        })?;
        self.state.sequence = sequence;
        self.use_action(table, given.action(), true);
        Ok(())
    }

    fn modify(&mut self, table: &Table, given: &PackedEntry) -> Result<(), EntryError> {
        let found = self.state.find(given.table, given.key(), given.priority).cloned();
        let old = found.ok_or_else(|| self.not_found(given.table, given.key(), given.priority))?;
        self.action(table, given.action(), false)?;
        if old.is_const() {
            return Err(self.is_const(table, given.table, given.key(), given.priority));
        }
        let new = given.kept(old.sequence());
        self.use_action(table, old.action(), false);
        self.use_action(table, new.action(), true);
        self.replace(given.table, old, new, given.counter);
        Ok(())
    }

    fn replace(&mut self, id: TableId, old: Entry, new: Entry, counter: Option<Counter>) {
        let (_, place) = self.state.place(id);
        place.replace(new.clone());
        self.changes.push(Change::Modified(id, old, new, counter));
    }

    fn delete(&mut self, table: &Table, given: &PackedEntry) -> Result<(), EntryError> {
        let id = given.table;
        let (layout, place) = self.state.place(id);
        let may = |entry: &Entry| if entry.is_const() { Err(()) } else { Ok(()) };
        let removed = place.remove_if(layout, given.key(), given.priority, may);
        let removed = removed.map_err(|()| self.is_const(table, id, given.key(), given.priority))?;
        let old = removed.ok_or_else(|| self.not_found(id, given.key(), given.priority))?;
        self.use_action(table, old.action(), false);
        self.changes.push(Change::Deleted(id, old));
        Ok(())
    }

    /// Checks an action, also that its member or group exists.
    pub(super) fn action(&self, table: &Table, action: PackedAction<'_>, default: bool) -> Result<(), EntryError> {
        validate::action(self.pipeline, table, action, default)?;
        let Some(id) = table.implementation else { return Ok(()) };
        let name = || (table.preamble.name.clone(), self.pipeline.externs[id].preamble.name.clone());
        let profile = self.state.profile(id);
        match action {
            PackedAction::Member(member) if !profile.is_some_and(|p| p.members.contains_key(&member)) => {
                let (table, profile) = name();
                Err(EntryError::UnknownMember { table, profile, member })
            }
            PackedAction::Group(group) if !profile.is_some_and(|p| p.groups.contains_key(&group)) => {
                let (table, profile) = name();
                Err(EntryError::UnknownGroup { table, profile, group })
            }
            _ => Ok(()),
        }
    }

    /// Counts a use of a member or group, or its end.
    pub(super) fn use_action(&mut self, table: &Table, action: PackedAction<'_>, begins: bool) {
        let (Some(profile), Some((group, id))) = (table.implementation, member_of(action)) else { return };
        let key = (profile, group, id);
        let users = Arc::make_mut(&mut self.state.users);
        let count = users.entry(key).or_default();
        self.undo.push(Undo::Users(key, *count));
        *count = if begins { *count + 1 } else { count.saturating_sub(1) };
    }

    fn is_const(&self, table: &Table, id: TableId, key: &[u64], priority: i32) -> EntryError {
        let entry = self.state.describe(id, key, priority);
        EntryError::ConstEntry { table: table.preamble.name.clone(), entry }
    }

    fn not_found(&self, id: TableId, key: &[u64], priority: i32) -> EntryError {
        let table = self.pipeline.tables[id].preamble.name.clone();
        EntryError::NotFound { table, entry: self.state.describe(id, key, priority) }
    }

    pub(super) fn default_action(&mut self, id: TableId, spec: Option<&ActionSpec>) -> Result<(), EntryError> {
        let pipeline = self.pipeline;
        let table = validate::table(pipeline, id)?;
        let action = match spec {
            Some(_) if table.const_default => {
                return Err(EntryError::ConstDefault { table: table.preamble.name.clone() });
            }
            Some(ActionSpec::Call(call)) => packer::call(pipeline, table, call, true)?,
            Some(ActionSpec::Member(id)) => Action::Member(*id),
            Some(ActionSpec::Group(id)) => Action::Group(*id),
            None => {
                let call = &table.default_action;
                Action::Call(call.action, pack_args(pipeline, call.action, &call.args))
            }
        };
        if spec.is_some() {
            self.action(table, action.packed(), true)?;
        }
        let (_, place) = self.state.place(id);
        let old = std::mem::replace(&mut place.default, action.clone());
        self.use_action(table, old.packed(), false);
        self.use_action(table, action.packed(), true);
        self.undo.push(Undo::Default(id, old));
        self.changes.push(Change::DefaultAction(id));
        Ok(())
    }

    pub(super) fn direct_meter(&mut self, id: &EntryId, config: Option<&MeterConfig>) -> Result<(), EntryError> {
        let pipeline = self.pipeline;
        let table = validate::table(pipeline, id.table)?;
        let name = || table.preamble.name.clone();
        if table.direct_meter.is_none() {
            return Err(EntryError::NoDirectMeter { table: name() });
        }
        if let Some(config) = config {
            validate::meter(config).map_err(|source| EntryError::Meter { table: name(), source })?;
        }
        let old = self.existing(id)?;
        // Also the meters of const entries can be configured: what is const is the match and the action.
        let new = old.with_meter(config.copied());
        self.replace(id.table, old, new, None);
        Ok(())
    }
}

/// The table, if its entries can be changed.
fn changeable(pipeline: &Pipeline, id: TableId) -> Result<&Table, EntryError> {
    let table = validate::table(pipeline, id)?;
    match table.const_entries {
        true => Err(EntryError::ConstTable { table: table.preamble.name.clone() }),
        false => Ok(table),
    }
}
