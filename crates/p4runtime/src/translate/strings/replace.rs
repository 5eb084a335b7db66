//! Strings to numbers in what comes, and numbers to strings in what leaves.

use super::visit::Spot;
use super::{MAX_STRING, Pending, StringSpace, number_in};
use crate::proto::v1;
use crate::proto::v1::entity::Entity as E;
use crate::translate::Schema;
use crate::translate::scalar::words;
use crate::{Code, Refusal, values};
use bytes::Bytes;
use entries::{Naming, State, Update, UpdateKind};
use num_bigint::BigUint;

/// What strings stand for at one moment: packets and digests are named by it.
pub struct StringsOf<'a>(pub &'a State);

/// The value at a spot, of a string.
struct ToNumber<'a> {
    schema: &'a Schema,
    state: &'a State,
    pending: Option<&'a mut Pending>,
    /// Keys are new ones.
    inserts: bool,
}

impl ToNumber<'_> {
    fn change(&mut self, spot: &Spot<'_>, bytes: &mut Bytes) -> Result<(), Refusal> {
        let Spot { space, place, is_key, is_whole, is_port } = spot;
        // Where no configuration says that ports are strings, they may be numbers as well.
        let may_be_number = *is_port && space.guessed;
        let Ok(string) = std::str::from_utf8(bytes) else {
            if may_be_number {
                return Ok(());
            }
            return Err(Refusal::invalid(format!("{}: a string of {} is not UTF-8", place(), space.key)));
        };
        if string.len() > MAX_STRING {
            return Err(space.refuse_length(&place(), bytes));
        }
        if !is_whole {
            return Err(Refusal::unimplemented(format!(
                "{}: its values are strings, so the match must be of one whole string, or be left out",
                place()
            )));
        }
        let value = match space.value(self.state, self.pending.as_deref(), string) {
            Some(value) => value,
            None if may_be_number => return Ok(()),
            None if *is_port => return Err(self.unknown(space, string, &place())),
            None if *is_key && !self.inserts || self.pending.is_none() => {
                return Err(Refusal::not_found(format!("{}: nothing is called {string:?}", place())));
            }
            None => self.allot(space, string, &place())?,
        };
        if let Some(pending) = &mut self.pending {
            // A number that has no string has one from now on, so that no other string gets it;
            // and a port that has two names has this one.
            let is_new = || !space.fixed.contains_key(string) && pending.value(space, self.state, string).is_none();
            if (number_in(string).is_some() || space.guessed) && is_new() {
                pending.name(space, string, &value);
            }
            pending.uses(space, &value);
        }
        *bytes = values::encode(&words(&value, space.width));
        Ok(())
    }

    fn unknown(&self, space: &StringSpace, string: &str, place: &str) -> Refusal {
        let known = space.some_of(self.state);
        let known = if known.is_empty() { "none".to_owned() } else { known };
        Refusal::invalid(format!("{place}: {string:?} stands for no value of {}; known are {known}", space.key))
    }

    fn allot(&mut self, space: &StringSpace, string: &str, place: &str) -> Result<BigUint, Refusal> {
        if string.is_empty() {
            return Err(Refusal::invalid(format!(
                "{place}: the string is empty, and nothing says what that stands for"
            )));
        }
        if !space.allocates || number_in(string).is_some() {
            return Err(self.unknown(space, string, place));
        }
        let Some(pending) = &mut self.pending else {
            return Err(Refusal::new(Code::Internal, "a string is to get a value where nothing is written"));
        };
        pending.allot(&self.schema.strings, space, self.state, (string, place))
    }
}

/// The string at a spot, of a number that this crate has made.
fn to_string(state: &State, spot: &Spot<'_>, bytes: &mut Bytes) {
    let value = BigUint::from_bytes_be(bytes);
    if spot.is_port && spot.space.guessed && spot.space.given(state, None, &value).is_none() {
        return;
    }
    *bytes = match spot.is_whole {
        true => Bytes::copy_from_slice(spot.space.shown(state, &value).as_bytes()),
        // An entry of the program that looks at some bits: no string says that.
        false => format!("#{value}").into(),
    };
}

impl Schema {
    /// Whether messages of this program have strings.
    pub fn has_strings(&self) -> bool {
        !self.strings.is_empty()
    }

    /// The update with numbers instead of strings. What it names is in `pending` then.
    pub(in crate::translate) fn numbered_update(
        &self,
        state: &State,
        pending: &mut Pending,
        kind: UpdateKind,
        entity: &v1::Entity,
    ) -> Result<v1::Entity, Refusal> {
        let mut entity = entity.clone();
        if kind == UpdateKind::Delete {
            // Only what identifies it is looked at.
            match &mut entity.entity {
                Some(E::TableEntry(entry)) => entry.action = None,
                _ => return Ok(entity),
            }
        }
        let inserts = kind == UpdateKind::Insert || matches!(entity.entity, Some(E::ValueSetEntry(_)));
        let pending = (kind != UpdateKind::Delete).then_some(pending);
        let mut to = ToNumber { schema: self, state, pending, inserts };
        self.visit_entity(&mut entity, &mut |spot, bytes| to.change(spot, bytes))?;
        Ok(entity)
    }

    /// The pattern with numbers instead of strings; `None` if it has a string that nothing is
    /// called by.
    pub(in crate::translate) fn numbered_pattern(
        &self,
        state: &State,
        wanted: &v1::Entity,
    ) -> Result<Option<v1::Entity>, Refusal> {
        let mut wanted = wanted.clone();
        let mut to = ToNumber { schema: self, state, pending: None, inserts: false };
        match self.visit_entity(&mut wanted, &mut |spot, bytes| to.change(spot, bytes)) {
            Ok(()) => Ok(Some(wanted)),
            Err(refusal) if refusal.code == Code::NotFound && matches!(wanted.entity, Some(E::TableEntry(_))) => {
                Ok(None)
            }
            Err(refusal) => Err(refusal),
        }
    }

    /// Puts strings where the control plane sees them.
    pub(in crate::translate) fn name_entity(&self, state: &State, entity: &mut v1::Entity) {
        // It refuses nothing.
        let _ = self.visit_entity(entity, &mut |spot, bytes| {
            to_string(state, spot, bytes);
            Ok(())
        });
    }

    /// The same in an entry of a notification.
    pub fn name_entry(&self, StringsOf(state): &StringsOf<'_>, entry: &mut v1::TableEntry) {
        let _ = self.visit_table_entry(entry, &mut |spot, bytes| {
            to_string(state, spot, bytes);
            Ok(())
        });
    }

    /// The same in a packet for the controller.
    pub fn name_packet(&self, StringsOf(state): &StringsOf<'_>, packet: &mut v1::PacketIn) {
        let Some(header) = &self.packet_in else { return };
        let _ = self.visit_metadata(header, &mut packet.metadata, &mut |spot, bytes| {
            to_string(state, spot, bytes);
            Ok(())
        });
    }

    /// The same in a digest.
    pub fn name_digest(&self, StringsOf(state): &StringsOf<'_>, digest: ir::ExternId, data: &mut v1::P4Data) {
        let Some((object, spec)) = self.digests.values().find(|(object, _)| object.id == digest) else { return };
        let _ = self.visit_data(&object.name, spec, data, &mut |spot, bytes| {
            to_string(state, spot, bytes);
            Ok(())
        });
    }

    /// A packet from the controller with numbers instead of strings.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if a string stands for nothing.
    pub fn number_packet(&self, StringsOf(state): &StringsOf<'_>, packet: &mut v1::PacketOut) -> Result<(), Refusal> {
        let Some(header) = &self.packet_out else { return Ok(()) };
        let mut to = ToNumber { schema: self, state, pending: None, inserts: false };
        let visited = self.visit_metadata(header, &mut packet.metadata, &mut |spot, bytes| to.change(spot, bytes));
        visited.map_err(|refusal| match refusal.code {
            Code::NotFound => Refusal::invalid(refusal.message),
            _ => refusal,
        })
    }
}

/// What an update has named, as writes that come before it.
pub(in crate::translate) fn namings(fresh: Vec<Naming>) -> impl Iterator<Item = Update> {
    fresh.into_iter().map(Update::Name)
}
