//! Writes of [`entries`] to `Update`s, for a controller that knows the pipeline.

use super::entry_metadata::EntryMetadata;
use super::replication::{clone_message, multicast_message};
use super::schema::{ObjectSchema, Schema, TableSchema};
use super::{counter, entity, meter};
use crate::P4RuntimeError;
use crate::proto::v1;
use crate::proto::v1::entity::Entity as E;
use crate::proto::v1::update::Type;
use entries::{ActionSpec, ControlState, EntryId, StateUpdate, TableEntry, UpdateKind};
use ir::{ExternId, KeyMatch, TableId};
use std::collections::BTreeMap;

impl Schema {
    /// Encodes a write as an update.
    ///
    /// # Errors
    /// `UNIMPLEMENTED` for writes that P4Runtime cannot express: hidden tables, expire time
    /// profiles, sessions with a multicast group. `NOT_FOUND` for objects that the pipeline does
    /// not have.
    pub fn encode_update(&self, update: &StateUpdate) -> Result<v1::Update, P4RuntimeError> {
        let (kind, entity) = match update {
            StateUpdate::Entry(kind, entry) => (*kind, E::TableEntry(self.table_entry_message(entry)?)),
            StateUpdate::DefaultAction(table, action) => {
                let table = self.shown_schema(*table)?;
                let entry = v1::TableEntry {
                    table_id: table.number,
                    action: action.as_ref().map(|action| self.spec_message(action)),
                    is_default_action: true,
                    ..v1::TableEntry::default()
                };
                (UpdateKind::Modify, E::TableEntry(entry))
            }
            StateUpdate::Member(kind, member) => {
                let action = self.call_message(&member.action);
                let message = self.member_message(self.profile(member.profile)?, member.id, action);
                (*kind, E::ActionProfileMember(message))
            }
            StateUpdate::Group(kind, group) => {
                let message = Schema::group_message(self.profile(group.profile)?, group.id, &group.members);
                (*kind, E::ActionProfileGroup(message))
            }
            StateUpdate::ValueSet(id, members) => {
                let set = self.sets.values().find(|set| set.id == *id).ok_or_else(|| unknown("value set", id.0))?;
                let keys: Vec<_> = members.iter().map(|member| super::keys::pack_key(&set.layout, member)).collect();
                let message = Schema::value_set_message(set, keys.iter().map(|key| key.as_slice()));
                (UpdateKind::Modify, E::ValueSetEntry(message))
            }
            StateUpdate::Multicast(kind, group) => (*kind, multicast_message(group)),
            StateUpdate::Clone(_, session) if session.multicast_group.is_some() => {
                return Err(P4RuntimeError::unimplemented(format!(
                    "clone session {}: it has a multicast group",
                    session.id
                )));
            }
            StateUpdate::Clone(kind, session) => (*kind, clone_message(session)),
            StateUpdate::Ports(_) | StateUpdate::SdnString(_) => {
                return Err(P4RuntimeError::unimplemented(
                    "P4Runtime has no entity for links and names: they are the server's own",
                ));
            }
            StateUpdate::ExpireTime(profile, _) => {
                return Err(P4RuntimeError::unimplemented(format!(
                    "expire time profile {profile}: P4Runtime has no entity for it"
                )));
            }
            other => (UpdateKind::Modify, self.object_message(other)?),
        };
        let kind = match kind {
            UpdateKind::Insert => Type::Insert,
            UpdateKind::Modify => Type::Modify,
            UpdateKind::Delete => Type::Delete,
        };
        let mut entity = self::entity(entity);
        if let (false, Ok(state)) = (self.strings.is_empty(), ControlState::new(self.pipeline.clone())) {
            // A sender without a state knows the program's strings only; other values are sent as
            // `#5`.
            self.name_entity(&state, &mut entity);
        }
        Ok(v1::Update { r#type: kind.into(), entity: Some(entity) })
    }

    /// Encodes counters, meters and registers.
    fn object_message(&self, update: &StateUpdate) -> Result<E, P4RuntimeError> {
        Ok(match update {
            StateUpdate::Counter(id, index, data) => E::CounterEntry(v1::CounterEntry {
                counter_id: object(&self.counters, *id, "counter")?.number,
                index: counter::index_message(*index),
                data: Some(counter::encode_counter(*data)),
            }),
            StateUpdate::Meter(id, index, config) => E::MeterEntry(v1::MeterEntry {
                meter_id: object(&self.meters, *id, "meter")?.number,
                index: counter::index_message(*index),
                config: config.as_ref().map(meter::encode_meter),
                counter_data: None,
            }),
            StateUpdate::DirectCounter(id, data) => E::DirectCounterEntry(v1::DirectCounterEntry {
                table_entry: Some(self.id_message(id)?),
                data: Some(counter::encode_counter(*data)),
            }),
            StateUpdate::DirectMeter(id, config) => E::DirectMeterEntry(v1::DirectMeterEntry {
                table_entry: Some(self.id_message(id)?),
                config: config.as_ref().map(meter::encode_meter),
                counter_data: None,
            }),
            StateUpdate::Register(id, index, values) => {
                let register = self.registers.values().find(|(object, _)| object.id == *id);
                let register = register.ok_or_else(|| unknown("register", id.0))?;
                E::RegisterEntry(self.register_message(register, *index, values)?)
            }
            _ => return Err(P4RuntimeError::unimplemented("P4Runtime has no entity for this write")),
        })
    }

    fn shown_schema(&self, table: TableId) -> Result<&TableSchema, P4RuntimeError> {
        self.shown_table(table).ok_or_else(|| match self.pipeline.tables.get(table) {
            Some(table) => P4RuntimeError::unimplemented(format!(
                "table {}: it is @hidden from the control plane",
                table.preamble.name
            )),
            None => unknown("table", table.0),
        })
    }

    fn profile(&self, id: ExternId) -> Result<&super::schema::ProfileSchema, P4RuntimeError> {
        self.profiles.values().find(|profile| profile.id == id).ok_or_else(|| unknown("action profile", id.0))
    }

    fn key_message(&self, table: TableId, keys: &[KeyMatch], priority: i32) -> Result<v1::TableEntry, P4RuntimeError> {
        let table = self.shown_schema(table)?;
        let r#match = table.fields.encode_matches(keys);
        Ok(v1::TableEntry { table_id: table.number, r#match, priority, ..v1::TableEntry::default() })
    }

    fn id_message(&self, id: &EntryId) -> Result<v1::TableEntry, P4RuntimeError> {
        self.key_message(id.table, &id.keys, id.priority)
    }

    fn spec_message(&self, action: &ActionSpec) -> v1::TableAction {
        use v1::table_action::Type as T;
        v1::TableAction {
            r#type: Some(match action {
                ActionSpec::Call(call) => T::Action(self.call_message(call)),
                ActionSpec::Member(id) => T::ActionProfileMemberId(*id),
                ActionSpec::Group(id) => T::ActionProfileGroupId(*id),
            }),
        }
    }

    fn table_entry_message(&self, entry: &TableEntry) -> Result<v1::TableEntry, P4RuntimeError> {
        let remark = EntryMetadata::unpack(&entry.metadata);
        Ok(v1::TableEntry {
            action: Some(self.spec_message(&entry.action)),
            controller_metadata: remark.cookie,
            metadata: remark.metadata,
            meter_config: entry.meter.as_ref().map(meter::encode_meter),
            counter_data: entry.counter.map(counter::encode_counter),
            idle_timeout_ns: i64::try_from(entry.idle_timeout_ns).unwrap_or(i64::MAX),
            ..self.key_message(entry.table, &entry.keys, entry.priority)?
        })
    }
}

fn unknown(what: &str, index: u32) -> P4RuntimeError {
    P4RuntimeError::not_found(format!("there is no {what} number {index}"))
}

fn object<'a>(
    objects: &'a BTreeMap<u32, ObjectSchema>,
    id: ExternId,
    what: &str,
) -> Result<&'a ObjectSchema, P4RuntimeError> {
    objects.values().find(|object| object.id == id).ok_or_else(|| unknown(what, id.0))
}
