//! Replacement of strings by numbers in received messages, and of numbers by strings in sent ones.

use super::traversal::StringValueSite;
use super::{MAX_STRING, Pending, StringSpace, number_in};
use crate::proto::v1;
use crate::proto::v1::entity::Entity as E;
use crate::translate::Schema;
use crate::translate::scalar::words;
use crate::{Code, P4RuntimeError, values};
use bytes::Bytes;
use entries::{ControlState, SdnStringUpdate, StateUpdate, UpdateKind};
use num_bigint::BigUint;

/// Mapping of strings at one moment, for packets and digests.
pub struct StringsOf<'a>(pub &'a ControlState);

/// Replacement of a string by its number.
struct StringReplacer<'a> {
    schema: &'a Schema,
    state: &'a ControlState,
    pending: Option<&'a mut Pending>,
    /// Whether the update inserts, so that strings in keys can be new.
    inserts: bool,
}

impl StringReplacer<'_> {
    /// Replaces the string at a place of a message by the bytes of its value. A string without a
    /// value gets one where an update inserts it.
    fn replace_string(&mut self, site: &StringValueSite<'_>, bytes: &mut Bytes) -> Result<(), P4RuntimeError> {
        let StringValueSite { space, place, is_key, is_whole, is_port } = site;
        // If port names are inferred, a port can also be given as a number.
        let may_be_number = *is_port && space.is_inferred;
        let Ok(string) = std::str::from_utf8(bytes) else {
            if may_be_number {
                return Ok(());
            }
            return Err(P4RuntimeError::invalid(format!("{}: a string of {} is not UTF-8", place(), space.key)));
        };
        if string.len() > MAX_STRING {
            return Err(space.refuse_length(&place(), bytes));
        }
        if !is_whole {
            return Err(P4RuntimeError::unimplemented(format!(
                "{}: its values are strings, so the match must be of one whole string, or be left out",
                place()
            )));
        }
        let value = match space.value(self.state, self.pending.as_deref(), string) {
            Some(value) => value,
            None if may_be_number => return Ok(()),
            None if *is_port => return Err(self.unknown(space, string, &place())),
            None if *is_key && !self.inserts || self.pending.is_none() => {
                return Err(P4RuntimeError::not_found(format!("{}: no value is named {string:?}", place())));
            }
            None => self.allocate(space, string, &place())?,
        };
        if let Some(pending) = &mut self.pending {
            // Records a `#` string as the name of its value, so that no other string gets the
            // value. Also records the name that is used for a port with two names.
            let is_new = || !space.fixed.contains_key(string) && pending.value(space, self.state, string).is_none();
            if (number_in(string).is_some() || space.is_inferred) && is_new() {
                pending.assign(space, string, &value);
            }
            pending.record_use(space, &value);
        }
        *bytes = values::encode(&words(&value, space.width));
        Ok(())
    }

    fn unknown(&self, space: &StringSpace, string: &str, place: &str) -> P4RuntimeError {
        let known = space.list_known(self.state);
        let known = if known.is_empty() { "none".to_owned() } else { known };
        P4RuntimeError::invalid(format!(
            "{place}: {string:?} is not a string of {}; known strings are {known}",
            space.key
        ))
    }

    fn allocate(&mut self, space: &StringSpace, string: &str, place: &str) -> Result<BigUint, P4RuntimeError> {
        if string.is_empty() {
            return Err(P4RuntimeError::invalid(format!(
                "{place}: the string is empty, and the empty string has no value"
            )));
        }
        if !space.allocates || number_in(string).is_some() {
            return Err(self.unknown(space, string, place));
        }
        let Some(pending) = &mut self.pending else {
            return Err(P4RuntimeError::new(Code::Internal, "a string needs a new value outside of a write"));
        };
        pending.allocate(&self.schema.strings, space, self.state, (string, place))
    }
}

/// Replaces a number that this crate encoded by its string.
fn replace_number(state: &ControlState, spot: &StringValueSite<'_>, bytes: &mut Bytes) {
    let value = BigUint::from_bytes_be(bytes);
    if spot.is_port && spot.space.is_inferred && spot.space.given(state, None, &value).is_none() {
        return;
    }
    *bytes = match spot.is_whole {
        true => Bytes::copy_from_slice(spot.space.string_or_number(state, &value).as_bytes()),
        // A program's entry that matches some bits only, which no string can express.
        false => format!("#{value}").into(),
    };
}

impl Schema {
    /// Returns whether messages of this program have strings.
    pub fn has_strings(&self) -> bool {
        !self.strings.is_empty()
    }

    /// Returns the update with numbers instead of strings and adds new strings to `pending`.
    pub(in crate::translate) fn numbered_update(
        &self,
        state: &ControlState,
        pending: &mut Pending,
        kind: UpdateKind,
        entity: &v1::Entity,
    ) -> Result<v1::Entity, P4RuntimeError> {
        let mut entity = entity.clone();
        if kind == UpdateKind::Delete {
            // Only the identity of the entity is read.
            match &mut entity.entity {
                Some(E::TableEntry(entry)) => entry.action = None,
                _ => return Ok(entity),
            }
        }
        let inserts = kind == UpdateKind::Insert || matches!(entity.entity, Some(E::ValueSetEntry(_)));
        let pending = (kind != UpdateKind::Delete).then_some(pending);
        let mut replacer = StringReplacer { schema: self, state, pending, inserts };
        self.visit_entity(&mut entity, &mut |site, bytes| replacer.replace_string(site, bytes))?;
        Ok(entity)
    }

    /// Returns the pattern with numbers instead of strings; `None` if it has an unknown string.
    pub(in crate::translate) fn numbered_pattern(
        &self,
        state: &ControlState,
        wanted: &v1::Entity,
    ) -> Result<Option<v1::Entity>, P4RuntimeError> {
        let mut wanted = wanted.clone();
        let mut to = StringReplacer { schema: self, state, pending: None, inserts: false };
        match self.visit_entity(&mut wanted, &mut |spot, bytes| to.replace_string(spot, bytes)) {
            Ok(()) => Ok(Some(wanted)),
            Err(refusal) if refusal.code == Code::NotFound && matches!(wanted.entity, Some(E::TableEntry(_))) => {
                Ok(None)
            }
            Err(refusal) => Err(refusal),
        }
    }

    /// Replaces numbers by strings in an entity.
    pub(in crate::translate) fn name_entity(&self, state: &ControlState, entity: &mut v1::Entity) {
        // The closure returns no errors.
        let _ = self.visit_entity(entity, &mut |spot, bytes| {
            replace_number(state, spot, bytes);
            Ok(())
        });
    }

    /// Replaces numbers by strings in the entry of a notification.
    pub fn name_entry(&self, StringsOf(state): &StringsOf<'_>, entry: &mut v1::TableEntry) {
        let _ = self.visit_table_entry(entry, &mut |spot, bytes| {
            replace_number(state, spot, bytes);
            Ok(())
        });
    }

    /// Replaces numbers by strings in a packet for the controller.
    pub fn name_packet(&self, StringsOf(state): &StringsOf<'_>, packet: &mut v1::PacketIn) {
        let Some(header) = &self.packet_in else { return };
        let _ = self.visit_metadata(header, &mut packet.metadata, &mut |spot, bytes| {
            replace_number(state, spot, bytes);
            Ok(())
        });
    }

    /// Replaces numbers by strings in a digest.
    pub fn name_digest(&self, StringsOf(state): &StringsOf<'_>, digest: ir::ExternId, data: &mut v1::P4Data) {
        let Some((object, spec)) = self.digests.values().find(|(object, _)| object.id == digest) else { return };
        let _ = self.visit_data(&object.name, spec, data, &mut |spot, bytes| {
            replace_number(state, spot, bytes);
            Ok(())
        });
    }

    /// Replaces strings by numbers in a packet from the controller.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if a string is unknown.
    pub fn number_packet(
        &self,
        StringsOf(state): &StringsOf<'_>,
        packet: &mut v1::PacketOut,
    ) -> Result<(), P4RuntimeError> {
        let Some(header) = &self.packet_out else { return Ok(()) };
        let mut to = StringReplacer { schema: self, state, pending: None, inserts: false };
        let visited =
            self.visit_metadata(header, &mut packet.metadata, &mut |spot, bytes| to.replace_string(spot, bytes));
        visited.map_err(|refusal| match refusal.code {
            Code::NotFound => P4RuntimeError::invalid(refusal.message),
            _ => refusal,
        })
    }
}

/// Converts new strings to writes that precede the update.
pub(in crate::translate) fn string_writes(fresh: Vec<SdnStringUpdate>) -> impl Iterator<Item = StateUpdate> {
    fresh.into_iter().map(StateUpdate::SdnString)
}
