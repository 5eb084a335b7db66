//! `TableEntry` to writes (section "TableEntry").

use super::entry_metadata::EntryMetadata;
use super::oneshot::{NewEntry, Oneshots};
use super::reserved_ids::check_id;
use super::schema::{Schema, TableSchema};
use crate::proto::v1;
use crate::proto::v1::table_action::Type as T;
use crate::{Code, P4RuntimeError};
use entries::{ActionSpec, EntryId, StateUpdate, TableEntry, UpdateKind};
use ir::KeyMatch;

/// Creates the write of an entry with an action.
fn write(kind: UpdateKind, mut entry: TableEntry, action: ActionSpec) -> StateUpdate {
    entry.action = action;
    StateUpdate::Entry(kind, entry)
}

/// Placeholder for an action that is set later.
const NO_ACTION: ActionSpec = ActionSpec::Member(0);

impl Schema {
    /// Translates the write of a table entry.
    pub(super) fn table_entry(
        &self,
        oneshots: &Oneshots,
        kind: UpdateKind,
        message: &v1::TableEntry,
    ) -> Result<Vec<StateUpdate>, P4RuntimeError> {
        let (table, declared) = self.table(message.table_id)?;
        if message.is_const {
            return Err(P4RuntimeError::invalid(format!(
                "table {}: only the program's own entries are const; leave is_const out",
                table.name
            )));
        }
        if message.is_default_action {
            return self.default_entry(table, declared, kind, message);
        }
        if kind == UpdateKind::Insert && table.fields.list.is_empty() {
            return Err(P4RuntimeError::invalid(format!(
                "table {}: it has no keys, so it has no entries; modify its default entry (is_default_action)",
                table.name
            )));
        }
        let keys = table.fields.decode(&message.r#match)?;
        let mut entry = TableEntry::new(table.id, keys, NO_ACTION).with_priority(message.priority);
        if kind == UpdateKind::Delete {
            let new = NewEntry { table, declared, entry, remark: EntryMetadata::default() };
            return Ok(match declared.implementation {
                None => vec![write(kind, new.entry, NO_ACTION)],
                Some(_) => self.delete_with_set(oneshots, new),
            });
        }
        attributes(table, declared, message, &mut entry)?;
        let metadata = EntryMetadata {
            metadata: message.metadata.clone(),
            cookie: message.controller_metadata,
            ..EntryMetadata::default()
        };
        entry.metadata = metadata.pack();
        let new = NewEntry { table, declared, entry, remark: metadata };
        match message.action.as_ref().map(|action| &action.r#type) {
            None if kind == UpdateKind::Insert => Err(P4RuntimeError::invalid(format!(
                "table {}: the entry has no action; give one (only MODIFY can leave it out)",
                table.name
            ))),
            None => self.modify_without_action(oneshots, new),
            Some(None) => Err(P4RuntimeError::invalid(format!("table {}: the entry's action is empty", table.name))),
            Some(Some(T::ActionProfileActionSet(set))) => self.action_set(oneshots, kind, new, set),
            Some(Some(action)) => {
                let action = self.spec(oneshots, table, declared, action)?;
                Ok(vec![write(kind, new.entry, action)])
            }
        }
    }

    /// Decodes the action of an entry, except action sets.
    fn spec(
        &self,
        oneshots: &Oneshots,
        table: &TableSchema,
        declared: &ir::Table,
        action: &T,
    ) -> Result<ActionSpec, P4RuntimeError> {
        let profile = self.profile_of(declared);
        let (kind_name, id) = match action {
            T::Action(action) => {
                return match profile {
                    None => Ok(ActionSpec::Call(self.decode_action(table, action)?)),
                    Some(profile) => Err(P4RuntimeError::invalid(format!(
                        "table {}: its actions are in {}; give a member or group of it{} instead of an action",
                        table.name,
                        profile.name,
                        if profile.with_selector { ", or an action set," } else { "" }
                    ))),
                };
            }
            T::ActionProfileMemberId(id) => ("member", *id),
            T::ActionProfileGroupId(id) => ("group", *id),
            T::ActionProfileActionSet(_) => ("action set", 0),
        };
        let Some(profile) = profile else {
            return Err(P4RuntimeError::invalid(format!(
                "table {}: it has no action profile; give an action instead of a {kind_name}",
                table.name
            )));
        };
        if kind_name == "group" && !profile.with_selector {
            return Err(P4RuntimeError::invalid(format!(
                "table {}: {} is an action profile and has no groups; give a member",
                table.name, profile.name
            )));
        }
        check_id(&profile.name, kind_name, id)?;
        self.check_not_mixed(oneshots, profile, false)?;
        Ok(if kind_name == "group" { ActionSpec::Group(id) } else { ActionSpec::Member(id) })
    }

    /// Decodes a modification without an action, which keeps the action. Const entries permit no
    /// other modification.
    fn modify_without_action(
        &self,
        oneshots: &Oneshots,
        new: NewEntry<'_>,
    ) -> Result<Vec<StateUpdate>, P4RuntimeError> {
        let NewEntry { table, declared, mut entry, remark: mut new_metadata } = new;
        let Some(old) = oneshots.entry(table, &entry.keys, entry.priority) else {
            return Err(self.no_entry(table, &entry.keys, entry.priority));
        };
        if !old.is_const() && !declared.const_entries {
            let old_metadata = EntryMetadata::unpack(old.metadata());
            (new_metadata.selection, new_metadata.semantics) = (old_metadata.selection, old_metadata.semantics);
            entry.metadata = new_metadata.pack();
            return Ok(vec![write(UpdateKind::Modify, entry, old.action().to_spec(&self.pipeline))]);
        }
        if !entry.metadata.is_empty() || entry.idle_timeout_ns != 0 {
            return Err(P4RuntimeError::new(
                Code::PermissionDenied,
                format!(
                    "table {}: entry {} is const: only its counter and meter can be changed; leave metadata and idle timeout out",
                    table.name,
                    self.describe(table, &entry.keys, entry.priority)
                ),
            ));
        }
        let id = EntryId { table: table.id, keys: entry.keys, priority: entry.priority };
        let mut updates = Vec::new();
        if entry.meter.is_some() || declared.direct_meter.is_some() {
            updates.push(StateUpdate::DirectMeter(id.clone(), entry.meter));
        }
        updates.extend(entry.counter.map(|data| StateUpdate::DirectCounter(id, data)));
        Ok(updates)
    }

    /// Translates the write of a default entry. Without an action, the table gets back the default
    /// action of the program.
    fn default_entry(
        &self,
        table: &TableSchema,
        declared: &ir::Table,
        kind: UpdateKind,
        message: &v1::TableEntry,
    ) -> Result<Vec<StateUpdate>, P4RuntimeError> {
        let invalid = |reason: &str| Err(P4RuntimeError::invalid(format!("table {}: {reason}", table.name)));
        if kind != UpdateKind::Modify {
            return invalid("its default entry is always there, it can only be modified; send MODIFY");
        }
        is_default(table, message)?;
        if message.idle_timeout_ns != 0 || message.time_since_last_hit.is_some() {
            return invalid("a default entry has no idle timeout; leave it out");
        }
        if !message.metadata.is_empty() || message.controller_metadata != 0 {
            let name = &table.name;
            return Err(P4RuntimeError::unimplemented(format!(
                "table {name}: metadata of a default entry is not kept; leave it out"
            )));
        }
        if message.counter_data.is_some() || message.meter_config.is_some() || message.meter_counter_data.is_some() {
            let name = &table.name;
            return Err(P4RuntimeError::unimplemented(format!(
                "table {name}: its default entry has no counter and no meter of its own; leave them out"
            )));
        }
        if declared.const_default {
            return Err(P4RuntimeError::new(
                Code::PermissionDenied,
                format!("table {}: its default action is const, it can only be changed in the program", table.name),
            ));
        }
        let action = match message.action.as_ref().map(|action| &action.r#type) {
            None => None,
            Some(Some(T::Action(action))) => Some(ActionSpec::Call(self.decode_action(table, action)?)),
            Some(None) => return invalid("the default entry's action is empty; leave it out to reset it"),
            Some(Some(_)) => return invalid("its default entry needs an action, not a member, group or action set"),
        };
        Ok(vec![StateUpdate::DefaultAction(table.id, action)])
    }

    /// Decodes the keys and priority of the entry that a direct counter or meter belongs to.
    pub(super) fn entry_id(
        &self,
        given: &v1::TableEntry,
    ) -> Result<(&TableSchema, &ir::Table, EntryId), P4RuntimeError> {
        let (table, declared) = self.table(given.table_id)?;
        if given.is_default_action {
            return Err(P4RuntimeError::unimplemented(format!(
                "table {}: its default entry has no counter and no meter of its own",
                table.name
            )));
        }
        let keys: Vec<KeyMatch> = table.fields.decode(&given.r#match)?;
        Ok((table, declared, EntryId { table: table.id, keys, priority: given.priority }))
    }
}

/// Checks that a default entry has neither keys nor a priority.
pub(super) fn is_default(table: &TableSchema, given: &v1::TableEntry) -> Result<(), P4RuntimeError> {
    match given.r#match.is_empty() && given.priority == 0 {
        true => Ok(()),
        false => Err(P4RuntimeError::invalid(format!(
            "table {}: its default entry has no keys and no priority; leave them out",
            table.name
        ))),
    }
}

/// Decodes counter, meter and idle timeout of a write, and rejects fields that cannot be written.
fn attributes(
    table: &TableSchema,
    declared: &ir::Table,
    message: &v1::TableEntry,
    entry: &mut TableEntry,
) -> Result<(), P4RuntimeError> {
    let name = &table.name;
    if message.meter_counter_data.is_some() {
        return Err(super::meter::no_color_counters(&format!("table {name}")));
    }
    if message.time_since_last_hit.is_some() {
        return Err(P4RuntimeError::invalid(format!(
            "table {name}: time_since_last_hit can only be read, not written; leave it out"
        )));
    }
    if message.idle_timeout_ns != 0 && !declared.idle_timeout {
        return Err(P4RuntimeError::invalid(format!(
            "table {name}: entries have no idle timeout; leave it out, or declare support for it in the program"
        )));
    }
    entry.idle_timeout_ns = u64::try_from(message.idle_timeout_ns).map_err(|_| {
        P4RuntimeError::invalid(format!("table {name}: the idle timeout is negative; give nanoseconds, or 0 for none"))
    })?;
    let error_place = || format!("table {name}");
    entry.counter =
        message.counter_data.as_ref().map(|data| super::counter::decode_counter(data, &error_place)).transpose()?;
    entry.meter =
        message.meter_config.as_ref().map(|config| super::meter::decode_meter(config, &error_place)).transpose()?;
    Ok(())
}
