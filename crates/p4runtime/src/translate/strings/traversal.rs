//! Traversal of all values in a message that the control plane sees as strings.

use super::StringSpace;
use crate::proto::v1;
use crate::proto::v1::entity::Entity as E;
use crate::proto::v1::field_match::FieldMatchType as F;
use crate::proto::v1::p4_data::Data as D;
use crate::translate::Schema;
use crate::translate::keys::MatchFieldSchemas;
use crate::translate::packet_header::PacketHeader;
use crate::translate::scalar::ones;
use crate::translate::schema::TableSchema;
use crate::{P4RuntimeError, values};
use bytes::Bytes;
use entries::big_from_words;
use ir::p4info::{NewType, TypeSpec};

/// Value in a message.
pub(super) struct StringValueSite<'a> {
    pub space: &'a StringSpace,
    pub place: &'a dyn Fn() -> String,
    /// Whether the value identifies an object, as opposed to a new value of it.
    pub is_key: bool,
    /// Whether the match covers all bits.
    pub is_whole: bool,
    /// Whether the field has the protocol's own type for ports, which is a number for programs
    /// without port names.
    pub is_port: bool,
}

pub(super) type Change<'a> = &'a mut dyn FnMut(&StringValueSite<'_>, &mut Bytes) -> Result<(), P4RuntimeError>;

impl Schema {
    /// Calls `change` for each string of an entity: keys, action parameters, ports, and data of
    /// named types.
    pub(super) fn visit_entity(&self, entity: &mut v1::Entity, change: Change<'_>) -> Result<(), P4RuntimeError> {
        match &mut entity.entity {
            Some(E::TableEntry(entry)) => self.visit_table_entry(entry, change),
            Some(E::ActionProfileMember(member)) => {
                let table = self.profiles.get(&member.action_profile_id).and_then(|profile| profile.table);
                let table = table.and_then(|table| self.shown_table(table));
                table
                    .zip(member.action.as_mut())
                    .map_or(Ok(()), |(table, action)| self.visit_action(table, action, change))
            }
            Some(E::ActionProfileGroup(group)) => group.members.iter_mut().try_for_each(|member| {
                use v1::action_profile_group::member::WatchKind::WatchPort;
                match &mut member.watch_kind {
                    Some(WatchPort(port)) if !port.is_empty() => self.visit_port(port, "watch_port", change),
                    _ => Ok(()),
                }
            }),
            Some(E::DirectCounterEntry(v1::DirectCounterEntry { table_entry: Some(entry), .. }))
            | Some(E::DirectMeterEntry(v1::DirectMeterEntry { table_entry: Some(entry), .. })) => {
                self.visit_table_entry(entry, change)
            }
            Some(E::RegisterEntry(entry)) => match (self.registers.get(&entry.register_id), &mut entry.data) {
                (Some((object, spec)), Some(data)) => self.visit_data(&object.name, spec, data, change),
                _ => Ok(()),
            },
            Some(E::ValueSetEntry(entry)) => match self.sets.get(&entry.value_set_id) {
                Some(set) => {
                    let members = entry.members.iter_mut();
                    members.map(|member| &mut member.r#match).try_for_each(|m| self.visit_match(&set.fields, m, change))
                }
                None => Ok(()),
            },
            Some(E::PacketReplicationEngineEntry(entry)) => {
                use v1::packet_replication_engine_entry::Type as P;
                let replicas = match &mut entry.r#type {
                    Some(P::MulticastGroupEntry(group)) => &mut group.replicas,
                    Some(P::CloneSessionEntry(session)) => &mut session.replicas,
                    None => return Ok(()),
                };
                replicas.iter_mut().try_for_each(|replica| match &mut replica.port_kind {
                    Some(v1::replica::PortKind::Port(port)) => self.visit_port(port, "port of a copy", change),
                    _ => Ok(()),
                })
            }
            _ => Ok(()),
        }
    }

    /// Calls `change` for each string in the key and the action of an entry.
    pub(super) fn visit_table_entry(
        &self,
        entry: &mut v1::TableEntry,
        change: Change<'_>,
    ) -> Result<(), P4RuntimeError> {
        use v1::table_action::Type as T;
        let Some(table) = self.tables.get(&entry.table_id) else { return Ok(()) };
        self.visit_match(&table.fields, &mut entry.r#match, change)?;
        match entry.action.as_mut().and_then(|action| action.r#type.as_mut()) {
            Some(T::Action(action)) => self.visit_action(table, action, change),
            Some(T::ActionProfileActionSet(set)) => set.action_profile_actions.iter_mut().try_for_each(|set_action| {
                use v1::action_profile_action::WatchKind::WatchPort;
                if let Some(action) = &mut set_action.action {
                    self.visit_action(table, action, change)?;
                }
                match &mut set_action.watch_kind {
                    Some(WatchPort(port)) if !port.is_empty() => self.visit_port(port, "watch_port", change),
                    _ => Ok(()),
                }
            }),
            _ => Ok(()),
        }
    }

    /// Calls `change` for each string in the matches of a key. A string is complete if the match
    /// has no free bits.
    fn visit_match(
        &self,
        fields: &MatchFieldSchemas,
        matches: &mut [v1::FieldMatch],
        change: Change<'_>,
    ) -> Result<(), P4RuntimeError> {
        for field_match in matches {
            let Some(field) = fields.list.iter().find(|field| field.id == field_match.field_id) else { continue };
            let Some(space) = self.strings.space_of(field.scalar.type_name()) else { continue };
            let width = field.scalar.width();
            let place = || format!("{}, key {}", fields.owner, field.name);
            let site = |is_whole| StringValueSite { space, place: &place, is_key: true, is_whole, is_port: false };
            match &mut field_match.field_match_type {
                Some(F::Exact(exact)) => change(&site(true), &mut exact.value)?,
                Some(F::Optional(optional)) => change(&site(true), &mut optional.value)?,
                Some(F::Ternary(ternary)) => {
                    let mask = values::decode(&ternary.mask, width).map(|mask| big_from_words(&mask));
                    change(&site(mask == Ok(ones(width))), &mut ternary.value)?;
                }
                Some(F::Lpm(lpm)) => change(&site(u32::try_from(lpm.prefix_len) == Ok(width)), &mut lpm.value)?,
                Some(F::Range(range)) => {
                    let is_whole = range.low == range.high;
                    change(&site(is_whole), &mut range.low)?;
                    change(&site(is_whole), &mut range.high)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn visit_action(
        &self,
        table: &TableSchema,
        action: &mut v1::Action,
        change: Change<'_>,
    ) -> Result<(), P4RuntimeError> {
        let known = table.actions.iter().find(|(number, _)| *number == action.action_id);
        let Some(known) = known.and_then(|(_, id)| self.actions.get(id.0 as usize)) else { return Ok(()) };
        for given in &mut action.params {
            let Some(param) = known.params.iter().find(|param| param.id == given.param_id) else { continue };
            let Some(space) = self.strings.space_of(param.scalar.type_name()) else { continue };
            let place = || format!("table {}, action {}, parameter {}", table.name, known.name, param.name);
            change(
                &StringValueSite { space, place: &place, is_key: false, is_whole: true, is_port: false },
                &mut given.value,
            )?;
        }
        Ok(())
    }

    fn visit_port(&self, port: &mut Bytes, what: &str, change: Change<'_>) -> Result<(), P4RuntimeError> {
        let Some(space) = self.strings.of_ports() else { return Ok(()) };
        change(
            &StringValueSite { space, place: &|| what.to_owned(), is_key: false, is_whole: true, is_port: true },
            port,
        )
    }

    pub(super) fn visit_metadata(
        &self,
        header: &PacketHeader,
        given: &mut [v1::PacketMetadata],
        change: Change<'_>,
    ) -> Result<(), P4RuntimeError> {
        for one in given {
            let Some((name, scalar)) = header.field(one.metadata_id) else { continue };
            let Some(space) = self.strings.space_of(scalar.type_name()) else { continue };
            let place = || format!("{}, metadata {name}", header.name());
            change(
                &StringValueSite { space, place: &place, is_key: true, is_whole: true, is_port: false },
                &mut one.value,
            )?;
        }
        Ok(())
    }

    /// Visits a value. Data that do not fit the type are skipped, because the decoder rejects them.
    pub(super) fn visit_data(
        &self,
        owner: &str,
        spec: &TypeSpec,
        data: &mut v1::P4Data,
        change: Change<'_>,
    ) -> Result<(), P4RuntimeError> {
        let types = self.types();
        match (spec, &mut data.data) {
            (TypeSpec::NewType(name), Some(D::Bitstring(bytes))) => self.visit_named(owner, name, bytes, change),
            (TypeSpec::NewType(name), Some(_)) => match types.new_types.get(name) {
                Some(NewType::Original(spec)) => self.visit_data(owner, spec, data, change),
                _ => Ok(()),
            },
            (TypeSpec::Tuple(specs), Some(D::Tuple(given))) => {
                let mut pairs = specs.iter().zip(&mut given.members);
                pairs.try_for_each(|(spec, data)| self.visit_data(owner, spec, data, change))
            }
            (TypeSpec::Struct(name), Some(D::Struct(given))) => {
                let members = types.structs.get(name).into_iter().flatten();
                let mut pairs = members.zip(&mut given.members);
                pairs.try_for_each(|((_, spec), data)| self.visit_data(owner, spec, data, change))
            }
            (TypeSpec::Header(name), Some(D::Header(given))) => self.visit_header(owner, name, given, change),
            (TypeSpec::HeaderStack(name, _), Some(D::HeaderStack(given))) => {
                given.entries.iter_mut().try_for_each(|header| self.visit_header(owner, name, header, change))
            }
            _ => Ok(()),
        }
    }

    fn visit_header(
        &self,
        owner: &str,
        name: &str,
        given: &mut v1::P4Header,
        change: Change<'_>,
    ) -> Result<(), P4RuntimeError> {
        let mut leaves = Vec::new();
        let members = self.types().headers.get(name).into_iter().flatten();
        members.for_each(|(_, spec)| self.leaves_of(spec, &mut leaves));
        for (spec, bytes) in leaves.into_iter().zip(&mut given.bitstrings) {
            if let TypeSpec::NewType(name) = spec {
                self.visit_named(owner, name, bytes, change)?;
            }
        }
        Ok(())
    }

    /// Collects the leaves of a header member; nested structs are flattened.
    fn leaves_of<'a>(&'a self, spec: &'a TypeSpec, out: &mut Vec<&'a TypeSpec>) {
        match spec {
            TypeSpec::Struct(name) => {
                let members = self.types().structs.get(name).into_iter().flatten();
                members.for_each(|(_, spec)| self.leaves_of(spec, out));
            }
            other => out.push(other),
        }
    }

    fn visit_named(
        &self,
        owner: &str,
        name: &str,
        bytes: &mut Bytes,
        change: Change<'_>,
    ) -> Result<(), P4RuntimeError> {
        let Some(space) = self.strings.space_of(Some(name)) else { return Ok(()) };
        change(
            &StringValueSite { space, place: &|| owner.to_owned(), is_key: false, is_whole: true, is_port: false },
            bytes,
        )
    }
}
