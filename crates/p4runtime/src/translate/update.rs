//! `Update` to writes of [`entries`], by entity.

use super::oneshot::Oneshots;
use super::schema::Schema;
use super::strings::string_writes;
use crate::P4RuntimeError;
use crate::proto::v1;
use crate::proto::v1::entity::Entity as E;
use entries::{StateUpdate, UpdateKind};

/// Decodes `Update.type`.
pub(super) fn kind(update: &v1::Update) -> Result<UpdateKind, P4RuntimeError> {
    match update.r#type() {
        v1::update::Type::Insert => Ok(UpdateKind::Insert),
        v1::update::Type::Modify => Ok(UpdateKind::Modify),
        v1::update::Type::Delete => Ok(UpdateKind::Delete),
        v1::update::Type::Unspecified => {
            Err(P4RuntimeError::invalid("the update has no type; give INSERT, MODIFY or DELETE".to_owned()))
        }
    }
}

/// Rejects all types but MODIFY, for objects that always exist.
pub(super) fn only_modify(kind: UpdateKind, what: &str) -> Result<(), P4RuntimeError> {
    match kind {
        UpdateKind::Modify => Ok(()),
        _ => Err(P4RuntimeError::invalid(format!("{what} is always there, it can only be modified; send MODIFY"))),
    }
}

impl Schema {
    /// Translates an update into one or more writes that belong together, in this order, or none if
    /// it has no effect. For digests see [`Schema::digest_write`].
    ///
    /// # Errors
    /// The canonical code of the specification's section on the entity. Errors that depend on the
    /// state (an existing entry, a full table) are reported when the writes are applied, or here
    /// for updates that `oneshots` tracks.
    pub fn translate_update(
        &self,
        oneshots: &mut Oneshots,
        update: &v1::Update,
    ) -> Result<Vec<StateUpdate>, P4RuntimeError> {
        let kind = kind(update)?;
        let entity = update.entity.as_ref().and_then(|entity| entity.entity.as_ref());
        let Some(entity) = entity else {
            return Err(P4RuntimeError::invalid("the update has no entity; set one of its fields".to_owned()));
        };
        if self.strings.is_empty() {
            return self.update_of(oneshots, kind, entity);
        }
        let original = v1::Entity { entity: Some(entity.clone()) };
        let mut pending = std::mem::take(&mut oneshots.pending);
        let numbered = self.numbered_update(oneshots.model(), &mut pending, kind, &original);
        oneshots.pending = pending;
        let updates = numbered.and_then(|numbered| match &numbered.entity {
            Some(entity) => self.update_of(oneshots, kind, entity),
            None => Ok(Vec::new()),
        });
        let new_strings = oneshots.pending.take_new_strings(updates.is_ok());
        // New numbers of strings come first, so that a reader of the entry finds its strings.
        updates.map(|updates| string_writes(new_strings).chain(updates).collect())
    }

    /// Translates the update of an entity without strings.
    fn update_of(
        &self,
        oneshots: &mut Oneshots,
        kind: UpdateKind,
        entity: &E,
    ) -> Result<Vec<StateUpdate>, P4RuntimeError> {
        let updates = match entity {
            E::TableEntry(entry) => self.table_entry(oneshots, kind, entry),
            E::ActionProfileMember(member) => self.member(oneshots, kind, member),
            E::ActionProfileGroup(group) => self.group(oneshots, kind, group),
            E::CounterEntry(entry) => self.counter_write(kind, entry),
            E::DirectCounterEntry(entry) => self.direct_counter_write(oneshots, kind, entry),
            E::MeterEntry(entry) => self.meter_write(kind, entry),
            E::DirectMeterEntry(entry) => self.direct_meter_write(kind, entry),
            E::RegisterEntry(entry) => self.register_write(kind, entry),
            E::ValueSetEntry(entry) => self.value_set_write(kind, entry),
            E::PacketReplicationEngineEntry(entry) => replication_write(kind, entry),
            E::DigestEntry(_) => {
                Err(P4RuntimeError::new(crate::Code::Internal, "a digest's configuration is not of tables"))
            }
            E::ExternEntry(entry) => Err(no_extern(entry.extern_type_id)),
        }?;
        oneshots.apply_tracked(&updates)?;
        Ok(updates)
    }
}

fn replication_write(
    kind: UpdateKind,
    entry: &v1::PacketReplicationEngineEntry,
) -> Result<Vec<StateUpdate>, P4RuntimeError> {
    super::replication::write(kind, entry)
}

/// Returns the error of an extern entry, because no program has externs with an entity of their
/// own.
pub(super) fn no_extern(number: u32) -> P4RuntimeError {
    P4RuntimeError::unimplemented(format!(
        "there is no extern type with id {number:#x} that has entries of its own; use the entity of the object's kind (counter, meter, \
         register, ...)"
    ))
}
