//! `DigestEntry`: configuration of digest messages. The server stores it, because [`entries`] has
//! no digests.

use super::entity;
use super::schema::{Schema, find};
use super::update::kind;
use crate::P4RuntimeError;
use crate::proto::v1;
use entries::UpdateKind;
use ir::{ExternId, ExternKind};
use num_bigint::BigUint;

/// Configuration of the digest messages of an object (section "DigestEntry").
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DigestConfig {
    /// Maximum delay of a message in nanoseconds, to group it with others; 0: none.
    pub max_timeout_ns: u64,
    /// Maximum number of messages in one list; 0: unlimited.
    pub max_list_size: u32,
    /// Time in nanoseconds in which a message is not repeated unless acknowledged; 0: it is
    /// repeated at once.
    pub ack_timeout_ns: u64,
}

/// Write of a digest's configuration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DigestWrite {
    /// The digest object.
    pub digest: ExternId,
    /// Insert enables the messages, delete disables them.
    pub kind: UpdateKind,
    /// The configuration; defaults for a deletion.
    pub config: DigestConfig,
}

impl Schema {
    /// Decodes the update of a digest; `None` if the update is of another entity. The caller checks
    /// whether the digest was configured before (`ALREADY_EXISTS`, `NOT_FOUND`).
    ///
    /// # Errors
    /// `NOT_FOUND` for an unknown id, `INVALID_ARGUMENT` for negative numbers or an update without
    /// a type.
    pub fn digest_write(&self, update: &v1::Update) -> Result<Option<DigestWrite>, P4RuntimeError> {
        let Some(v1::Entity { entity: Some(v1::entity::Entity::DigestEntry(given)) }) = &update.entity else {
            return Ok(None);
        };
        let kind = kind(update)?;
        let (object, _) = find(&self.digests, given.digest_id, "digest")?;
        let digest = object.id;
        let Some(config) = given.config.as_ref().filter(|_| kind != UpdateKind::Delete) else {
            return Ok(Some(DigestWrite { digest, kind, config: DigestConfig::default() }));
        };
        let number = |value: i64, field: &str| {
            u64::try_from(value).map_err(|_| {
                P4RuntimeError::invalid(format!("{}: {field} is {value}; it cannot be negative", object.name))
            })
        };
        let config = DigestConfig {
            max_timeout_ns: number(config.max_timeout_ns, "max_timeout_ns")?,
            max_list_size: number(config.max_list_size.into(), "max_list_size")? as u32,
            ack_timeout_ns: number(config.ack_timeout_ns, "ack_timeout_ns")?,
        };
        Ok(Some(DigestWrite { digest, kind, config }))
    }

    /// Returns the digests that a read selects.
    ///
    /// # Errors
    /// `NOT_FOUND` for an unknown id.
    pub fn digests_wanted(&self, wanted: &v1::DigestEntry) -> Result<Vec<ExternId>, P4RuntimeError> {
        match wanted.digest_id {
            0 => Ok(self.digests.values().map(|(object, _)| object.id).collect()),
            id => Ok(vec![find(&self.digests, id, "digest")?.0.id]),
        }
    }

    /// Encodes a configuration as an entity; `None` if P4Info does not show the digest.
    pub fn digest_entry(&self, digest: ExternId, config: &DigestConfig) -> Option<v1::Entity> {
        let config = v1::digest_entry::Config {
            max_timeout_ns: i64::try_from(config.max_timeout_ns).unwrap_or(i64::MAX),
            max_list_size: i32::try_from(config.max_list_size).unwrap_or(i32::MAX),
            ack_timeout_ns: i64::try_from(config.ack_timeout_ns).unwrap_or(i64::MAX),
        };
        let entry = v1::DigestEntry { digest_id: self.digest_number(digest)?, config: Some(config) };
        Some(entity(v1::entity::Entity::DigestEntry(entry)))
    }

    /// Returns the P4Info id of a digest.
    pub fn digest_number(&self, digest: ExternId) -> Option<u32> {
        self.digests.values().map(|(object, _)| object).find(|object| object.id == digest).map(|object| object.number)
    }

    /// Encodes a digest message for `DigestList.data`; `values` are the leaves of its type.
    ///
    /// # Errors
    /// `INTERNAL` if the values do not fit the type, `UNIMPLEMENTED` if P4Runtime cannot express a
    /// value of the type.
    pub fn encode_digest(&self, digest: ExternId, values: &[BigUint]) -> Result<v1::P4Data, P4RuntimeError> {
        let found = self.digests.values().find(|(object, _)| object.id == digest);
        let kind = self.pipeline.externs.get(digest).map(|object| &object.kind);
        let (Some((object, spec)), Some(ExternKind::Digest { fields, .. })) = (found, kind) else {
            return Err(P4RuntimeError::new(crate::Code::Internal, format!("object {} is no digest", digest.0)));
        };
        self.encode_data(&object.name, spec, fields, values)
    }
}
