//! Entries and default actions.

use super::{Transaction, Undo, member_of};
use crate::batch::*;
use crate::entry::{Action, ActionSpec, Entry, PackedKey, TableEntry};
use crate::error::EntryError;
use crate::layout::pack_args;
use crate::validate;
use ir::{Pipeline, Table, TableId};
use std::sync::Arc;

impl Transaction<'_> {
    pub(super) fn packed_key(&self, table: TableId, keys: &[ir::KeyMatch]) -> Result<PackedKey, EntryError> {
        let declared = validate::table(self.pipeline, table)?;
        validate::keys(&declared.preamble.name, &declared.keys, self.state.layout(table), keys)
    }

    pub(super) fn existing(
        &self,
        table: TableId,
        keys: &[ir::KeyMatch],
        priority: i32,
    ) -> Result<Arc<Entry>, EntryError> {
        let key = self.packed_key(table, keys)?;
        match self.state.find(table, &key, priority) {
            Some(entry) => Ok(entry.clone()),
            None => Err(EntryError::NotFound {
                table: self.pipeline.tables[table].preamble.name.clone(),
                entry: self.state.describe(table, &key, priority),
            }),
        }
    }

    /// The table, if its entries can be changed.
    pub(super) fn changeable(pipeline: &Pipeline, id: TableId) -> Result<&Table, EntryError> {
        let table = validate::table(pipeline, id)?;
        match table.const_entries {
            true => Err(EntryError::ConstTable { table: table.preamble.name.clone() }),
            false => Ok(table),
        }
    }

    pub(super) fn insert(&mut self, given: &TableEntry) -> Result<(), EntryError> {
        let pipeline = self.pipeline;
        let table = Self::changeable(pipeline, given.table)?;
        validate::attributes(table, given, UpdateKind::Insert)?;
        let key = self.packed_key(given.table, &given.keys)?;
        let action = self.action(table, &given.action, false)?;
        let name = || table.preamble.name.clone();
        if self.state.find(given.table, &key, given.priority).is_some() {
            let entry = self.state.describe(given.table, &key, given.priority);
            return Err(EntryError::Duplicate { table: name(), entry });
        }
        if let Some(size) = table.size
            && self.state.entry_count(given.table) as u64 >= size
        {
            return Err(EntryError::Full { table: name(), size });
        }
        self.state.sequence += 1;
        let entry = Arc::new(kept(given, key, action, self.state.sequence));
        self.put(given.table, entry.clone());
        self.undo.push(Undo::Remove(given.table, self.changes.len()));
        self.use_action(table, &entry.action, true);
        self.changes.push(Change::Inserted(given.table, entry, given.counter.unwrap_or_default()));
        Ok(())
    }

    pub(super) fn modify(&mut self, given: &TableEntry) -> Result<(), EntryError> {
        let pipeline = self.pipeline;
        let table = Self::changeable(pipeline, given.table)?;
        validate::attributes(table, given, UpdateKind::Modify)?;
        let old = self.existing(given.table, &given.keys, given.priority)?;
        let action = self.action(table, &given.action, false)?;
        let new = Arc::new(kept(given, old.key.clone(), action, old.sequence));
        self.replace(table, given.table, old, new, given.counter)
    }

    pub(super) fn replace(
        &mut self,
        table: &Table,
        id: TableId,
        old: Arc<Entry>,
        new: Arc<Entry>,
        counter: Option<CounterData>,
    ) -> Result<(), EntryError> {
        self.refuse_const(table, id, &old)?;
        self.take(id, &old);
        self.undo.push(Undo::Put(id, old.clone()));
        self.put(id, new.clone());
        self.undo.push(Undo::Remove(id, self.changes.len()));
        self.use_action(table, &old.action, false);
        self.use_action(table, &new.action, true);
        self.changes.push(Change::Modified(id, old, new, counter));
        Ok(())
    }

    pub(super) fn delete(&mut self, given: &TableEntry) -> Result<(), EntryError> {
        let pipeline = self.pipeline;
        let table = Self::changeable(pipeline, given.table)?;
        validate::attributes(table, given, UpdateKind::Delete)?;
        let old = self.existing(given.table, &given.keys, given.priority)?;
        self.refuse_const(table, given.table, &old)?;
        self.take(given.table, &old);
        self.undo.push(Undo::Put(given.table, old.clone()));
        self.use_action(table, &old.action, false);
        self.changes.push(Change::Deleted(given.table, old));
        Ok(())
    }

    pub(super) fn refuse_const(&self, table: &Table, id: TableId, entry: &Entry) -> Result<(), EntryError> {
        match entry.is_const {
            false => Ok(()),
            true => Err(EntryError::ConstEntry {
                table: table.preamble.name.clone(),
                entry: self.state.describe(id, &entry.key, entry.priority),
            }),
        }
    }

    /// Checks an action, also that its member or group exists.
    pub(super) fn action(&self, table: &Table, spec: &ActionSpec, default: bool) -> Result<Action, EntryError> {
        let action = validate::action(self.pipeline, table, spec, default)?;
        let Some(id) = table.implementation else { return Ok(action) };
        let name = || (table.preamble.name.clone(), self.pipeline.externs[id].preamble.name.clone());
        let profile = self.state.profile(id);
        match action {
            Action::Member(member) if !profile.is_some_and(|p| p.members.contains_key(&member)) => {
                let (table, profile) = name();
                Err(EntryError::UnknownMember { table, profile, member })
            }
            Action::Group(group) if !profile.is_some_and(|p| p.groups.contains_key(&group)) => {
                let (table, profile) = name();
                Err(EntryError::UnknownGroup { table, profile, group })
            }
            action => Ok(action),
        }
    }

    /// Counts a use of a member or group, or its end.
    pub(super) fn use_action(&mut self, table: &Table, action: &Action, begins: bool) {
        let (Some(profile), Some((group, id))) = (table.implementation, member_of(action)) else { return };
        let key = (profile, group, id);
        let users = Arc::make_mut(&mut self.state.users);
        let count = users.entry(key).or_default();
        self.undo.push(Undo::Users(key, *count));
        *count = if begins { *count + 1 } else { count.saturating_sub(1) };
    }

    pub(super) fn put(&mut self, table: TableId, entry: Arc<Entry>) {
        let state = &mut *self.state;
        let index = table.0 as usize;
        Arc::make_mut(&mut state.tables[index]).insert(&state.layouts[index], entry);
    }

    pub(super) fn take(&mut self, table: TableId, entry: &Entry) {
        let state = &mut *self.state;
        let index = table.0 as usize;
        Arc::make_mut(&mut state.tables[index]).remove(&state.layouts[index], &entry.key, entry.priority);
    }

    pub(super) fn default_action(&mut self, id: TableId, spec: Option<&ActionSpec>) -> Result<(), EntryError> {
        let pipeline = self.pipeline;
        let table = validate::table(pipeline, id)?;
        let action = match spec {
            Some(_) if table.const_default => {
                return Err(EntryError::ConstDefault { table: table.preamble.name.clone() });
            }
            Some(spec) => self.action(table, spec, true)?,
            None => {
                let call = &table.default_action;
                Action::Call(call.action, pack_args(pipeline, call.action, &call.args))
            }
        };
        let state = Arc::make_mut(&mut self.state.tables[id.0 as usize]);
        let old = std::mem::replace(&mut state.default, action.clone());
        self.undo.push(Undo::Default(id, old.clone()));
        self.use_action(table, &old, false);
        self.use_action(table, &action, true);
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
        let old = self.existing(id.table, &id.keys, id.priority)?;
        let mut new = Entry::clone(&old);
        new.meter = config.map(|config| Box::new(*config));
        let new = Arc::new(new);
        // Also the meters of const entries can be configured: what is const is the match and the action.
        self.take(id.table, &old);
        self.undo.push(Undo::Put(id.table, old.clone()));
        self.put(id.table, new.clone());
        self.undo.push(Undo::Remove(id.table, self.changes.len()));
        self.changes.push(Change::Modified(id.table, old, new, None));
        Ok(())
    }
}

fn kept(given: &TableEntry, key: PackedKey, action: Action, sequence: u64) -> Entry {
    Entry {
        key,
        priority: given.priority,
        is_const: given.is_const,
        action,
        sequence,
        idle_timeout_ns: given.idle_timeout_ns,
        meter: given.meter.map(Box::new),
        provenance: given.provenance.clone(),
        metadata: given.metadata.clone().into_boxed_slice(),
    }
}
