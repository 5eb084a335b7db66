//! Read of table entries: filters and contents (sections "Wildcard Reads", "Direct Resources",
//! "Idle-timeout").

use super::entry::is_default;
use super::entry_metadata::EntryMetadata;
use super::keys::pack_key;
use super::schema::{Schema, TableSchema};
use super::{EntitySink, ReadFlow, entity};
use crate::proto::v1;
use crate::{Device, DeviceEntry, EntryValues, P4RuntimeError};
use entries::{ControlState, PackedKey, StoredAction, StoredActionRef, StoredEntry};
use ir::{ActionId, TableId};
use std::ops::ControlFlow;

/// Direct resources to include in the entries of a read.
#[derive(Clone, Copy, Default)]
struct DirectResources {
    counter: bool,
    meter: bool,
    hit: bool,
}

impl DirectResources {
    /// Returns those that packets change.
    fn values(self) -> EntryValues {
        EntryValues { counter: self.counter, idle: self.hit }
    }
}

/// Conditions on the entries of a read.
struct Filter {
    key: Option<PackedKey>,
    priority: i32,
    action: Option<ActionId>,
    metadata: bytes::Bytes,
    cookie: u64,
}

impl Filter {
    fn matches(&self, entry: &StoredEntry) -> bool {
        let remark = || EntryMetadata::unpack(entry.metadata());
        self.key.as_ref().is_none_or(|key| key.as_slice() == entry.key())
            && (self.priority == 0 || self.priority == entry.priority())
            && self.action.is_none_or(|action| matches!(entry.action(), StoredActionRef::Call(id, _) if id == action))
            && (self.metadata.is_empty() || remark().metadata == self.metadata)
            && (self.cookie == 0 || remark().cookie == self.cookie)
    }
}

impl Schema {
    /// Reads the entries of a table that the message `pattern` matches: all fields that it sets are
    /// filters. Table id 0: the entries of all tables.
    pub(super) fn read_entries(
        &self,
        device: &dyn Device,
        state: &ControlState,
        pattern: &v1::TableEntry,
        sink: EntitySink<'_>,
    ) -> ReadFlow {
        if pattern.table_id == 0 {
            return self.read_all(device, state, pattern, sink);
        }
        let (table, declared) = self.table(pattern.table_id)?;
        let direct = direct_resources(table, declared, pattern)?;
        if pattern.is_default_action {
            is_default(table, pattern)?;
            if direct.hit {
                let name = &table.name;
                return Err(P4RuntimeError::invalid(format!(
                    "table {name}: a default entry has no idle time; leave time_since_last_hit out"
                )));
            }
            return Ok(sink(self.default_message(state, table, declared)));
        }
        let filter = self.filter(table, declared, pattern)?;
        let mut send = |entry: DeviceEntry| {
            let message = self.entry_message(state, table, declared, &entry, direct);
            sink(entity(v1::entity::Entity::TableEntry(message)))
        };
        let source = (device, state);
        // An entry with all of its key and priority given is found by a single lookup.
        if let Some(key) = filter.key.as_ref().filter(|_| declared.has_priority() == (filter.priority != 0)) {
            let entry = self.find_entry(source, table.id, (key, filter.priority), direct.values())?;
            return Ok(entry.filter(|it| filter.matches(&it.entry)).map_or(ControlFlow::Continue(()), send));
        }
        self.visit_entries(source, table.id, direct.values(), &|entry| filter.matches(entry), &mut send)
    }

    /// Reads the entries of all tables. P4Runtime permits no filter then.
    fn read_all(
        &self,
        device: &dyn Device,
        state: &ControlState,
        pattern: &v1::TableEntry,
        sink: EntitySink<'_>,
    ) -> ReadFlow {
        let is_filtered = !pattern.r#match.is_empty()
            || pattern.action.is_some()
            || pattern.priority != 0
            || pattern.is_default_action
            || !pattern.metadata.is_empty()
            || pattern.controller_metadata != 0;
        if is_filtered {
            return Err(P4RuntimeError::invalid(
                "entries of all tables are requested (table_id 0) with a filter; give table_id, or no filter",
            ));
        }
        if pattern.meter_counter_data.is_some() {
            return Err(super::meter::no_color_counters("table entries"));
        }
        for table in self.tables.values() {
            let declared = &self.pipeline.tables[table.id];
            // Each table includes the direct resources that it has.
            let direct = DirectResources {
                counter: pattern.counter_data.is_some() && declared.direct_counter.is_some(),
                meter: pattern.meter_config.is_some() && declared.direct_meter.is_some(),
                hit: pattern.time_since_last_hit.is_some() && declared.idle_timeout,
            };
            let mut send = |entry: DeviceEntry| {
                let message = self.entry_message(state, table, declared, &entry, direct);
                sink(entity(v1::entity::Entity::TableEntry(message)))
            };
            if self.visit_entries((device, state), table.id, direct.values(), &|_| true, &mut send)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Decodes the filter of a read: key, priority, action id and metadata. A field that is not set
    /// matches everything.
    fn filter(
        &self,
        table: &TableSchema,
        declared: &ir::Table,
        pattern: &v1::TableEntry,
    ) -> Result<Filter, P4RuntimeError> {
        let key = match pattern.r#match.is_empty() {
            true => None,
            false => Some(pack_key(&table.layout, &table.fields.decode(&pattern.r#match)?)),
        };
        let invalid = |reason: &str| Err(P4RuntimeError::invalid(format!("table {}: {reason}", table.name)));
        let action = match pattern.action.as_ref().map(|action| &action.r#type) {
            None => None,
            Some(_) if declared.implementation.is_some() => {
                return invalid("entries cannot be filtered by their member or group; leave the action out");
            }
            Some(Some(v1::table_action::Type::Action(action))) if action.params.is_empty() => {
                let listed = table.actions.iter().find(|(number, _)| *number == action.action_id);
                let Some((_, id)) = listed else {
                    return invalid(&format!("it has no action with id {:#x}", action.action_id));
                };
                Some(*id)
            }
            Some(Some(v1::table_action::Type::Action(_))) => {
                return invalid("entries cannot be filtered by an action's arguments; give the action_id alone");
            }
            Some(_) => return invalid("entries can be filtered by an action_id only"),
        };
        let (metadata, cookie) = (pattern.metadata.clone(), pattern.controller_metadata);
        Ok(Filter { key, priority: pattern.priority, action, metadata, cookie })
    }

    /// Encodes table, keys and priority.
    pub(super) fn entry_key(&self, table: &TableSchema, entry: &StoredEntry) -> v1::TableEntry {
        v1::TableEntry {
            table_id: table.number,
            r#match: table.fields.encode(&table.layout, entry.key()),
            priority: entry.priority(),
            ..v1::TableEntry::default()
        }
    }

    /// Encodes an entry, with the direct resources that `direct` names.
    fn entry_message(
        &self,
        state: &ControlState,
        table: &TableSchema,
        declared: &ir::Table,
        DeviceEntry { entry, counter, idle_ns }: &DeviceEntry,
        direct: DirectResources,
    ) -> v1::TableEntry {
        use v1::table_action::Type as T;
        let metadata = EntryMetadata::unpack(entry.metadata());
        let action = match entry.action() {
            StoredActionRef::Call(id, words) => T::Action(self.action_message(id, words)),
            StoredActionRef::Member(id) => T::ActionProfileMemberId(id),
            StoredActionRef::Group(id) => match self.action_set_message(state, declared, id) {
                None => T::ActionProfileGroupId(id),
                Some(set) => T::ActionProfileActionSet(v1::ActionProfileActionSet {
                    action_selection_mode: metadata.selection.into(),
                    size_semantics: metadata.semantics.into(),
                    ..set
                }),
            },
        };
        let counter = direct.counter.then(|| counter.unwrap_or_default());
        let idle_ns = direct.hit.then(|| idle_ns.unwrap_or(0));
        v1::TableEntry {
            action: Some(v1::TableAction { r#type: Some(action) }),
            controller_metadata: metadata.cookie,
            metadata: metadata.metadata,
            meter_config: entry.meter().filter(|_| direct.meter).map(super::meter::encode_meter),
            counter_data: counter.map(super::counter::encode_counter),
            idle_timeout_ns: i64::try_from(entry.idle_timeout_ns()).unwrap_or(i64::MAX),
            time_since_last_hit: idle_ns.map(idle_time),
            is_const: entry.is_const() || declared.const_entries,
            ..self.entry_key(table, entry)
        }
    }

    fn default_message(&self, state: &ControlState, table: &TableSchema, declared: &ir::Table) -> v1::Entity {
        use v1::table_action::Type as T;
        let action = match state.default_action(table.id) {
            StoredAction::Call(id, words) => T::Action(self.action_message(*id, words)),
            StoredAction::Member(id) => T::ActionProfileMemberId(*id),
            StoredAction::Group(id) => T::ActionProfileGroupId(*id),
        };
        entity(v1::entity::Entity::TableEntry(v1::TableEntry {
            table_id: table.number,
            action: Some(v1::TableAction { r#type: Some(action) }),
            is_default_action: true,
            is_const: declared.const_default,
            ..v1::TableEntry::default()
        }))
    }

    /// Encodes an idle entry for `IdleTimeoutNotification.table_entry`: its identity, the
    /// controller's metadata and the idle time. `None` if P4Info does not show the table.
    pub fn encode_idle_entry(&self, table: TableId, entry: &StoredEntry, idle_ns: u64) -> Option<v1::TableEntry> {
        let table = self.shown_table(table)?;
        let remark = EntryMetadata::unpack(entry.metadata());
        Some(v1::TableEntry {
            controller_metadata: remark.cookie,
            metadata: remark.metadata,
            idle_timeout_ns: i64::try_from(entry.idle_timeout_ns()).unwrap_or(i64::MAX),
            time_since_last_hit: Some(idle_time(idle_ns)),
            ..self.entry_key(table, entry)
        })
    }
}

fn idle_time(ns: u64) -> v1::table_entry::IdleTimeout {
    v1::table_entry::IdleTimeout { elapsed_ns: i64::try_from(ns).unwrap_or(i64::MAX) }
}

/// Returns the direct resources that a read asks for. Refuses those that the table does not have.
fn direct_resources(
    table: &TableSchema,
    declared: &ir::Table,
    pattern: &v1::TableEntry,
) -> Result<DirectResources, P4RuntimeError> {
    let name = &table.name;
    if pattern.meter_counter_data.is_some() {
        return Err(super::meter::no_color_counters(&format!("table {name}")));
    }
    let direct = DirectResources {
        counter: pattern.counter_data.is_some(),
        meter: pattern.meter_config.is_some(),
        hit: pattern.time_since_last_hit.is_some(),
    };
    let lacking = match direct {
        DirectResources { counter: true, .. } if declared.direct_counter.is_none() => {
            "has no direct counter; leave counter_data out"
        }
        DirectResources { meter: true, .. } if declared.direct_meter.is_none() => {
            "has no direct meter; leave meter_config out"
        }
        DirectResources { hit: true, .. } if !declared.idle_timeout => {
            "has no idle timeouts; leave time_since_last_hit out"
        }
        _ => return Ok(direct),
    };
    Err(P4RuntimeError::invalid(format!("table {name}: it {lacking}")))
}
