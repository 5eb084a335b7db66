//! Applying a batch: each update is checked and made in turn, and all are taken back if one is refused.

use crate::batch::*;
use crate::entry::{Action, ActionSpec, Entry, PackedKey, TableEntry};
use crate::error::{EntryError, UpdateError, WriteError};
use crate::layout::pack_args;
use crate::profile::Profile;
use crate::state::State;
use crate::validate;
use ir::{ExternId, ExternKind, Pipeline, Table, TableId, ValueSetId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The most copies that a multicast group or session makes.
pub const MAX_REPLICAS: usize = 1024;

/// How to take a step back.
enum Undo {
    Remove(TableId, Arc<Entry>),
    Put(TableId, Arc<Entry>),
    Default(TableId, Action),
    Users((ExternId, bool, u32), u64),
    Profile(ExternId, Arc<Profile>),
    ValueSet(ValueSetId, Arc<Vec<PackedKey>>),
    Meters(Arc<BTreeMap<(ExternId, u64), MeterConfig>>),
    Multicast(Arc<BTreeMap<u32, MulticastGroup>>),
    Clones(Arc<BTreeMap<u32, CloneSession>>),
    ExpireTimes(Arc<BTreeMap<u8, u64>>),
}

/// A batch that is being applied.
struct Transaction<'a> {
    state: &'a mut State,
    pipeline: Arc<Pipeline>,
    undo: Vec<Undo>,
    changes: Vec<Change>,
}

impl State {
    /// Applies a batch and returns what has changed, in order. If one update is refused, nothing has changed.
    pub fn apply(&mut self, batch: &WriteBatch) -> Result<Vec<Change>, WriteError> {
        let pipeline = self.pipeline.clone();
        let sequence = self.sequence;
        let capacity = batch.updates.len();
        let mut transaction = Transaction {
            state: self,
            pipeline,
            undo: Vec::with_capacity(capacity),
            changes: Vec::with_capacity(capacity),
        };
        for (index, update) in batch.updates.iter().enumerate() {
            if let Err(error) = transaction.update(update) {
                transaction.roll_back();
                self.sequence = sequence;
                return Err(WriteError { index, error });
            }
        }
        let changes = transaction.changes;
        self.version += 1;
        Ok(changes)
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
    ) -> Option<Arc<Entry>> {
        let declared = self.pipeline.tables.get(table)?;
        let full = declared.size.is_some_and(|size| self.entry_count(table) as u64 >= size);
        if full || declared.const_entries || self.find(table, &key, 0).is_some() {
            return None;
        }
        self.sequence += 1;
        self.version += 1;
        let entry = Arc::new(Entry {
            key,
            priority: 0,
            is_const: false,
            action,
            sequence: self.sequence,
            idle_timeout_ns,
            meter: None,
            provenance: None,
            metadata: Box::default(),
        });
        let layouts = self.layouts.clone();
        Arc::make_mut(&mut self.tables[table.0 as usize]).insert(&layouts[table.0 as usize], entry.clone());
        Some(entry)
    }

    /// Takes out an entry whose idle time has passed in a table that deletes such entries.
    pub fn remove_idle(&mut self, table: TableId, entry: &Entry) {
        let Some(declared) = self.pipeline.tables.get(table) else { return };
        let layouts = self.layouts.clone();
        let index = table.0 as usize;
        let removed = Arc::make_mut(&mut self.tables[index]).remove(&layouts[index], &entry.key, entry.priority);
        if removed.is_none() {
            return;
        }
        self.version += 1;
        let (Some(profile), Some((group, id))) = (declared.implementation, member_of(&entry.action)) else { return };
        if let Some(users) = Arc::make_mut(&mut self.users).get_mut(&(profile, group, id)) {
            *users = users.saturating_sub(1);
        }
    }
}

/// The member (`false`) or group (`true`) that an action names.
fn member_of(action: &Action) -> Option<(bool, u32)> {
    match action {
        Action::Call(..) => None,
        Action::Member(id) => Some((false, *id)),
        Action::Group(id) => Some((true, *id)),
    }
}

impl Transaction<'_> {
    fn update(&mut self, update: &Update) -> Result<(), UpdateError> {
        match update {
            Update::Entry(UpdateKind::Insert, entry) => self.insert(entry)?,
            Update::Entry(UpdateKind::Modify, entry) => self.modify(entry)?,
            Update::Entry(UpdateKind::Delete, entry) => self.delete(entry)?,
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
                let table = validate::table(&self.pipeline, id.table)?;
                if table.direct_counter.is_none() {
                    return Err(EntryError::NoDirectCounter { table: table.preamble.name.clone() }.into());
                }
                let entry = self.existing(id.table, &id.keys, id.priority)?;
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
        }
        Ok(())
    }

    fn packed_key(&self, table: TableId, keys: &[ir::KeyMatch]) -> Result<PackedKey, EntryError> {
        let declared = validate::table(&self.pipeline, table)?;
        validate::keys(&declared.preamble.name, &declared.keys, self.state.layout(table), keys)
    }

    fn existing(&self, table: TableId, keys: &[ir::KeyMatch], priority: i32) -> Result<Arc<Entry>, EntryError> {
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
    fn changeable(pipeline: &Pipeline, id: TableId) -> Result<&Table, EntryError> {
        let table = validate::table(pipeline, id)?;
        match table.const_entries {
            true => Err(EntryError::ConstTable { table: table.preamble.name.clone() }),
            false => Ok(table),
        }
    }

    fn insert(&mut self, given: &TableEntry) -> Result<(), EntryError> {
        let pipeline = self.pipeline.clone();
        let table = Self::changeable(&pipeline, given.table)?;
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
        self.undo.push(Undo::Remove(given.table, entry.clone()));
        self.use_action(table, &entry.action, true);
        self.changes.push(Change::Inserted(given.table, entry, given.counter.unwrap_or_default()));
        Ok(())
    }

    fn modify(&mut self, given: &TableEntry) -> Result<(), EntryError> {
        let pipeline = self.pipeline.clone();
        let table = Self::changeable(&pipeline, given.table)?;
        validate::attributes(table, given, UpdateKind::Modify)?;
        let old = self.existing(given.table, &given.keys, given.priority)?;
        let action = self.action(table, &given.action, false)?;
        let new = Arc::new(kept(given, old.key.clone(), action, old.sequence));
        self.replace(table, given.table, old, new, given.counter)
    }

    fn replace(
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
        self.undo.push(Undo::Remove(id, new.clone()));
        self.use_action(table, &old.action, false);
        self.use_action(table, &new.action, true);
        self.changes.push(Change::Modified(id, old, new, counter));
        Ok(())
    }

    fn delete(&mut self, given: &TableEntry) -> Result<(), EntryError> {
        let pipeline = self.pipeline.clone();
        let table = Self::changeable(&pipeline, given.table)?;
        validate::attributes(table, given, UpdateKind::Delete)?;
        let old = self.existing(given.table, &given.keys, given.priority)?;
        self.refuse_const(table, given.table, &old)?;
        self.take(given.table, &old);
        self.undo.push(Undo::Put(given.table, old.clone()));
        self.use_action(table, &old.action, false);
        self.changes.push(Change::Deleted(given.table, old));
        Ok(())
    }

    fn refuse_const(&self, table: &Table, id: TableId, entry: &Entry) -> Result<(), EntryError> {
        match entry.is_const {
            false => Ok(()),
            true => Err(EntryError::ConstEntry {
                table: table.preamble.name.clone(),
                entry: self.state.describe(id, &entry.key, entry.priority),
            }),
        }
    }

    /// Checks an action, also that its member or group exists.
    fn action(&self, table: &Table, spec: &ActionSpec, default: bool) -> Result<Action, EntryError> {
        let action = validate::action(&self.pipeline, table, spec, default)?;
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
    fn use_action(&mut self, table: &Table, action: &Action, begins: bool) {
        let (Some(profile), Some((group, id))) = (table.implementation, member_of(action)) else { return };
        let key = (profile, group, id);
        let users = Arc::make_mut(&mut self.state.users);
        let count = users.entry(key).or_default();
        self.undo.push(Undo::Users(key, *count));
        *count = if begins { *count + 1 } else { count.saturating_sub(1) };
    }

    fn put(&mut self, table: TableId, entry: Arc<Entry>) {
        let state = &mut *self.state;
        let index = table.0 as usize;
        Arc::make_mut(&mut state.tables[index]).insert(&state.layouts[index], entry);
    }

    fn take(&mut self, table: TableId, entry: &Entry) {
        let state = &mut *self.state;
        let index = table.0 as usize;
        Arc::make_mut(&mut state.tables[index]).remove(&state.layouts[index], &entry.key, entry.priority);
    }

    fn default_action(&mut self, id: TableId, spec: Option<&ActionSpec>) -> Result<(), EntryError> {
        let pipeline = self.pipeline.clone();
        let table = validate::table(&pipeline, id)?;
        let action = match spec {
            Some(_) if table.const_default => {
                return Err(EntryError::ConstDefault { table: table.preamble.name.clone() });
            }
            Some(spec) => self.action(table, spec, true)?,
            None => {
                let call = &table.default_action;
                Action::Call(call.action, pack_args(&pipeline, call.action, &call.args))
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

    fn direct_meter(&mut self, id: &EntryId, config: Option<&MeterConfig>) -> Result<(), EntryError> {
        let pipeline = self.pipeline.clone();
        let table = validate::table(&pipeline, id.table)?;
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
        self.undo.push(Undo::Remove(id.table, new.clone()));
        self.changes.push(Change::Modified(id.table, old, new, None));
        Ok(())
    }

    fn roll_back(self) {
        let state = self.state;
        for step in self.undo.into_iter().rev() {
            match step {
                Undo::Remove(table, entry) => {
                    let index = table.0 as usize;
                    let layouts = &state.layouts[index];
                    Arc::make_mut(&mut state.tables[index]).remove(layouts, &entry.key, entry.priority);
                }
                Undo::Put(table, entry) => {
                    let index = table.0 as usize;
                    Arc::make_mut(&mut state.tables[index]).insert(&state.layouts[index], entry);
                }
                Undo::Default(table, action) => Arc::make_mut(&mut state.tables[table.0 as usize]).default = action,
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
            }
        }
    }
}

/// The rest of the updates: externs, value sets, groups and sessions.
impl Transaction<'_> {
    fn member(&mut self, kind: UpdateKind, member: &ActionProfileMember) -> Result<(), UpdateError> {
        let pipeline = self.pipeline.clone();
        let name = self.profile_name(member.profile)?;
        let mut action = None;
        if kind != UpdateKind::Delete {
            let users = pipeline.tables.values().filter(|t| t.implementation == Some(member.profile));
            for table in users {
                action = Some(validate::call(&pipeline, table, &member.action, false)?);
            }
            if action.is_none() {
                // A profile that no table uses: there is nothing to compare the action with.
                return Err(UpdateError::WrongExtern {
                    name,
                    expected: "profile of a table",
                    got: "profile without one",
                });
            }
        } else if let Some(users) = self.used(member.profile, false, member.id) {
            return Err(UpdateError::InUse { what: "member", name, id: member.id, users });
        }
        self.save_profile(member.profile);
        if let Some(profile) = self.state.profiles.get_mut(&member.profile) {
            Arc::make_mut(profile).update_member(&pipeline, kind, member, action)?;
        }
        self.changes.push(Change::Member(member.profile, member.id));
        Ok(())
    }

    fn group(&mut self, kind: UpdateKind, group: &ActionProfileGroup) -> Result<(), UpdateError> {
        let pipeline = self.pipeline.clone();
        let name = self.profile_name(group.profile)?;
        if !matches!(pipeline.externs[group.profile].kind, ExternKind::ActionSelector { .. }) {
            return Err(UpdateError::WrongExtern { name, expected: "action selector", got: "action profile" });
        }
        if kind == UpdateKind::Delete
            && let Some(users) = self.used(group.profile, true, group.id)
        {
            return Err(UpdateError::InUse { what: "group", name, id: group.id, users });
        }
        self.save_profile(group.profile);
        if let Some(profile) = self.state.profiles.get_mut(&group.profile) {
            Arc::make_mut(profile).update_group(&pipeline, kind, group)?;
        }
        self.changes.push(Change::Group(group.profile, group.id));
        Ok(())
    }

    fn used(&self, profile: ExternId, group: bool, id: u32) -> Option<u64> {
        self.state.users.get(&(profile, group, id)).copied().filter(|users| *users > 0)
    }

    fn profile_name(&self, id: ExternId) -> Result<String, UpdateError> {
        let object = self.object(id)?;
        match object.kind {
            ExternKind::ActionProfile { .. } | ExternKind::ActionSelector { .. } => Ok(object.preamble.name.clone()),
            _ => Err(self.wrong(id, "action profile or selector")),
        }
    }

    /// Whether a step like this was taken lately. The whole structure is saved then, and is no longer shared, so that
    /// further changes copy nothing. To save it once more does no harm; looking at every step would.
    fn saved(&self, is_it: impl Fn(&Undo) -> bool) -> bool {
        self.undo.iter().rev().take(64).any(is_it)
    }

    fn save_profile(&mut self, id: ExternId) {
        let saved = self.saved(|u| matches!(u, Undo::Profile(other, _) if *other == id));
        if let (false, Some(profile)) = (saved, self.state.profiles.get(&id)) {
            self.undo.push(Undo::Profile(id, profile.clone()));
        }
    }

    fn object(&self, id: ExternId) -> Result<&ir::ExternInst, UpdateError> {
        let count = self.pipeline.externs.len();
        self.pipeline.externs.get(id).ok_or(UpdateError::UnknownExtern { index: id.0, count })
    }

    fn wrong(&self, id: ExternId, expected: &'static str) -> UpdateError {
        let object = &self.pipeline.externs[id];
        let got = match object.kind {
            ExternKind::Counter { .. } => "counter",
            ExternKind::DirectCounter { .. } => "direct counter",
            ExternKind::Meter { .. } => "meter",
            ExternKind::DirectMeter { .. } => "direct meter",
            ExternKind::Register { .. } => "register",
            ExternKind::ActionProfile { .. } => "action profile",
            ExternKind::ActionSelector { .. } => "action selector",
            ExternKind::Digest { .. } => "digest",
            _ => "object without control-plane state",
        };
        UpdateError::WrongExtern { name: object.preamble.name.clone(), expected, got }
    }

    fn index(
        &self,
        id: ExternId,
        index: u64,
        expected: &'static str,
        size: impl Fn(&ExternKind) -> Option<u64>,
    ) -> Result<(), UpdateError> {
        let object = self.object(id)?;
        match size(&object.kind) {
            None => Err(self.wrong(id, expected)),
            Some(size) if index >= size => Err(UpdateError::Index { name: object.preamble.name.clone(), index, size }),
            Some(_) => Ok(()),
        }
    }

    fn meter(&mut self, id: ExternId, index: u64, config: Option<&MeterConfig>) -> Result<(), UpdateError> {
        let size = |kind: &ExternKind| match kind {
            ExternKind::Meter { size, .. } => Some(*size),
            _ => None,
        };
        self.index(id, index, "meter", size)?;
        if let Some(config) = config {
            let name = || self.pipeline.externs[id].preamble.name.clone();
            validate::meter(config).map_err(|source| UpdateError::Meter { name: name(), index, source })?;
        }
        if !self.saved(|u| matches!(u, Undo::Meters(_))) {
            self.undo.push(Undo::Meters(self.state.meters.clone()));
        }
        let meters = Arc::make_mut(&mut self.state.meters);
        match config {
            Some(config) => meters.insert((id, index), *config),
            None => meters.remove(&(id, index)),
        };
        self.changes.push(Change::Meter(id, index));
        Ok(())
    }

    fn register(
        &mut self,
        id: ExternId,
        index: Option<u64>,
        values: &[num_bigint::BigUint],
    ) -> Result<(), UpdateError> {
        let size = |kind: &ExternKind| match kind {
            ExternKind::Register { size, .. } => Some(*size),
            _ => None,
        };
        match index {
            Some(index) => self.index(id, index, "register", size)?,
            None if size(&self.object(id)?.kind).is_none() => return Err(self.wrong(id, "register")),
            None => {}
        }
        let object = self.object(id)?;
        let name = || object.preamble.name.clone();
        if let ExternKind::Register { elem, .. } = &object.kind {
            let (expected, got) = (elem.len(), values.len());
            if expected != got {
                return Err(UpdateError::RegisterArity { name: name(), expected, got });
            }
            for (ty, value) in elem.iter().zip(values) {
                let width = ty.width();
                if value.bits() > u64::from(width) {
                    return Err(UpdateError::RegisterTooWide { name: name(), value: value.clone(), width });
                }
            }
        }
        self.changes.push(Change::Register(id, index, values.to_vec()));
        Ok(())
    }

    fn value_set(&mut self, id: ValueSetId, members: &[Vec<ir::KeyMatch>]) -> Result<(), UpdateError> {
        let count = self.pipeline.value_sets.len();
        let Some(set) = self.pipeline.value_sets.get(id) else {
            return Err(UpdateError::UnknownValueSet { index: id.0, count });
        };
        let name = &set.preamble.name;
        if members.len() as u64 > set.size {
            return Err(UpdateError::ValueSetFull { name: name.clone(), got: members.len(), size: set.size });
        }
        let layout = self.state.value_set_layout(id);
        let packed: Result<Vec<_>, _> =
            members.iter().map(|member| validate::keys(name, &set.keys, layout, member)).collect();
        let old = std::mem::replace(&mut self.state.value_sets[id.0 as usize], Arc::new(packed?));
        self.undo.push(Undo::ValueSet(id, old));
        self.changes.push(Change::ValueSet(id));
        Ok(())
    }

    fn multicast(&mut self, kind: UpdateKind, group: &MulticastGroup) -> Result<(), UpdateError> {
        let (what, id) = ("multicast group", group.id);
        if id == 0 {
            return Err(UpdateError::ZeroId { what });
        }
        replicas(what, id, &group.replicas)?;
        if !self.saved(|u| matches!(u, Undo::Multicast(_))) {
            self.undo.push(Undo::Multicast(self.state.multicast.clone()));
        }
        keyed(Arc::make_mut(&mut self.state.multicast), kind, what, id, group)?;
        self.changes.push(Change::Multicast(id));
        Ok(())
    }

    fn clone_session(&mut self, kind: UpdateKind, session: &CloneSession) -> Result<(), UpdateError> {
        let (what, id) = ("clone session", session.id);
        replicas(what, id, &session.replicas)?;
        if !self.saved(|u| matches!(u, Undo::Clones(_))) {
            self.undo.push(Undo::Clones(self.state.clones.clone()));
        }
        keyed(Arc::make_mut(&mut self.state.clones), kind, what, id, session)?;
        self.changes.push(Change::Clone(id));
        Ok(())
    }
}

fn replicas(what: &'static str, id: u32, replicas: &[Replica]) -> Result<(), UpdateError> {
    match replicas.len() > MAX_REPLICAS {
        true => Err(UpdateError::TooManyReplicas { what, id, got: replicas.len(), most: MAX_REPLICAS }),
        false => Ok(()),
    }
}

fn keyed<T: Clone>(
    map: &mut BTreeMap<u32, T>,
    kind: UpdateKind,
    what: &'static str,
    id: u32,
    new: &T,
) -> Result<(), UpdateError> {
    let name = || "the packet replication engine".to_owned();
    match (kind, map.contains_key(&id)) {
        (UpdateKind::Insert, true) => Err(UpdateError::Exists { what, name: name(), id }),
        (UpdateKind::Modify | UpdateKind::Delete, false) => Err(UpdateError::Missing { what, name: name(), id }),
        (UpdateKind::Delete, true) => {
            map.remove(&id);
            Ok(())
        }
        _ => {
            map.insert(id, new.clone());
            Ok(())
        }
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
