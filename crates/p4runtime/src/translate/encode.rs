//! Writes of [`entries`] to `Update`s: what a controller sends that knows the pipeline.

use super::remark::Remark;
use super::replication::{clone_message, multicast_message};
use super::schema::{ObjectSchema, Schema, TableSchema};
use super::{counter, entity, meter};
use crate::Refusal;
use crate::proto::v1;
use crate::proto::v1::entity::Entity as E;
use crate::proto::v1::update::Type;
use entries::{ActionSpec, EntryId, State, TableEntry, Update, UpdateKind};
use ir::{ExternId, KeyMatch, TableId};
use std::collections::BTreeMap;

impl Schema {
    /// A write as an update.
    ///
    /// # Errors
    /// `UNIMPLEMENTED` for what P4Runtime cannot say: hidden tables, expire time profiles, sessions with a multicast group;
    /// `NOT_FOUND` for objects that the pipeline doesn't have.
    pub fn message(&self, update: &Update) -> Result<v1::Update, Refusal> {
        let (kind, entity) = match update {
            Update::Entry(kind, entry) => (*kind, E::TableEntry(self.table_entry_message(entry)?)),
            Update::DefaultAction(table, action) => {
                let table = self.shown(*table)?;
                let entry = v1::TableEntry {
                    table_id: table.number,
                    action: action.as_ref().map(|action| self.spec_message(action)),
                    is_default_action: true,
                    ..v1::TableEntry::default()
                };
                (UpdateKind::Modify, E::TableEntry(entry))
            }
            Update::Member(kind, member) => {
                let action = self.call_message(&member.action);
                let message = self.member_message(self.profile(member.profile)?, member.id, action);
                (*kind, E::ActionProfileMember(message))
            }
            Update::Group(kind, group) => {
                let message = Schema::group_message(self.profile(group.profile)?, group.id, &group.members);
                (*kind, E::ActionProfileGroup(message))
            }
            Update::ValueSet(id, members) => {
                let set = self.sets.values().find(|set| set.id == *id).ok_or_else(|| unknown("value set", id.0))?;
                let keys: Vec<_> = members.iter().map(|member| super::keys::pack(&set.layout, member)).collect();
                let message = Schema::value_set_message(set, keys.iter().map(|key| key.as_slice()));
                (UpdateKind::Modify, E::ValueSetEntry(message))
            }
            Update::Multicast(kind, group) => (*kind, multicast_message(group)),
            Update::Clone(_, session) if session.multicast_group.is_some() => {
                return Err(Refusal::unimplemented(format!("clone session {}: it has a multicast group", session.id)));
            }
            Update::Clone(kind, session) => (*kind, clone_message(session)),
            Update::Ports(_) | Update::Name(_) => {
                return Err(Refusal::unimplemented(
                    "P4Runtime has no entity for links and names: they are the server's own",
                ));
            }
            Update::ExpireTime(profile, _) => {
                return Err(Refusal::unimplemented(format!(
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
        if let (false, Ok(state)) = (self.strings.is_empty(), State::new(self.pipeline.clone())) {
            // A sender without a state knows the program's strings alone; other values are `#5`.
            self.name_entity(&state, &mut entity);
        }
        Ok(v1::Update { r#type: kind.into(), entity: Some(entity) })
    }

    /// Counters, meters and registers.
    fn object_message(&self, update: &Update) -> Result<E, Refusal> {
        Ok(match update {
            Update::Counter(id, index, data) => E::CounterEntry(v1::CounterEntry {
                counter_id: object(&self.counters, *id, "counter")?.number,
                index: counter::index_message(*index),
                data: Some(counter::message(*data)),
            }),
            Update::Meter(id, index, config) => E::MeterEntry(v1::MeterEntry {
                meter_id: object(&self.meters, *id, "meter")?.number,
                index: counter::index_message(*index),
                config: config.as_ref().map(meter::message),
                counter_data: None,
            }),
            Update::DirectCounter(id, data) => E::DirectCounterEntry(v1::DirectCounterEntry {
                table_entry: Some(self.id_message(id)?),
                data: Some(counter::message(*data)),
            }),
            Update::DirectMeter(id, config) => E::DirectMeterEntry(v1::DirectMeterEntry {
                table_entry: Some(self.id_message(id)?),
                config: config.as_ref().map(meter::message),
                counter_data: None,
            }),
            Update::Register(id, index, values) => {
                let register = self.registers.values().find(|(object, _)| object.id == *id);
                let register = register.ok_or_else(|| unknown("register", id.0))?;
                E::RegisterEntry(self.register_message(register, *index, values)?)
            }
            _ => return Err(Refusal::unimplemented("P4Runtime has no entity for this write")),
        })
    }

    fn shown(&self, table: TableId) -> Result<&TableSchema, Refusal> {
        self.shown_table(table).ok_or_else(|| match self.pipeline.tables.get(table) {
            Some(table) => {
                Refusal::unimplemented(format!("table {}: it is @hidden from the control plane", table.preamble.name))
            }
            None => unknown("table", table.0),
        })
    }

    fn profile(&self, id: ExternId) -> Result<&super::schema::ProfileSchema, Refusal> {
        self.profiles.values().find(|profile| profile.id == id).ok_or_else(|| unknown("action profile", id.0))
    }

    fn key_message(&self, table: TableId, keys: &[KeyMatch], priority: i32) -> Result<v1::TableEntry, Refusal> {
        let table = self.shown(table)?;
        let r#match = table.fields.encode_matches(keys);
        Ok(v1::TableEntry { table_id: table.number, r#match, priority, ..v1::TableEntry::default() })
    }

    fn id_message(&self, id: &EntryId) -> Result<v1::TableEntry, Refusal> {
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

    fn table_entry_message(&self, entry: &TableEntry) -> Result<v1::TableEntry, Refusal> {
        let remark = Remark::unpack(&entry.metadata);
        Ok(v1::TableEntry {
            action: Some(self.spec_message(&entry.action)),
            controller_metadata: remark.cookie,
            metadata: remark.metadata,
            meter_config: entry.meter.as_ref().map(meter::message),
            counter_data: entry.counter.map(counter::message),
            idle_timeout_ns: i64::try_from(entry.idle_timeout_ns).unwrap_or(i64::MAX),
            ..self.key_message(entry.table, &entry.keys, entry.priority)?
        })
    }
}

fn unknown(what: &str, index: u32) -> Refusal {
    Refusal::not_found(format!("there is no {what} number {index}"))
}

fn object<'a>(objects: &'a BTreeMap<u32, ObjectSchema>, id: ExternId, what: &str) -> Result<&'a ObjectSchema, Refusal> {
    objects.values().find(|object| object.id == id).ok_or_else(|| unknown(what, id.0))
}
