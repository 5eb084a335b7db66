//! `DigestEntry`: how digest messages are sent. The server keeps it; digests are no matter of [`entries`].

use super::entity;
use super::schema::{Schema, find};
use super::update::kind;
use crate::Refusal;
use crate::proto::v1;
use entries::UpdateKind;
use ir::{ExternId, ExternKind};
use num_bigint::BigUint;

/// How digest messages of an object are sent (section "DigestEntry").
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DigestConfig {
    /// How long a message may wait for others, in nanoseconds; 0: not at all.
    pub max_timeout_ns: u64,
    /// How many messages are sent at once; 0: any number.
    pub max_list_size: u32,
    /// For how long a message that was not acknowledged is not sent again, in nanoseconds; 0: it is sent again at once.
    pub ack_timeout_ns: u64,
}

/// A write of a digest's configuration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DigestWrite {
    /// The digest object.
    pub digest: ExternId,
    /// Insert: messages are sent from now on. Delete: no longer.
    pub kind: UpdateKind,
    /// Defaults if it is deleted.
    pub config: DigestConfig,
}

impl Schema {
    /// The write that an update of a digest is; `None` if it is of something else. Whether the digest was configured before is for the
    /// keeper to check (`ALREADY_EXISTS`, `NOT_FOUND`).
    ///
    /// # Errors
    /// `NOT_FOUND` for an unknown id, `INVALID_ARGUMENT` for negative numbers or an update without a type.
    pub fn digest_write(&self, update: &v1::Update) -> Result<Option<DigestWrite>, Refusal> {
        let Some(v1::Entity { entity: Some(v1::entity::Entity::DigestEntry(given)) }) = &update.entity else {
            return Ok(None);
        };
        let kind = kind(update)?;
        let (object, _) = find(&self.digests, given.digest_id, "digest")?;
        let digest = object.id;
        let Some(config) = given.config.as_ref().filter(|_| kind != UpdateKind::Delete) else {
            return Ok(Some(DigestWrite { digest, kind, config: DigestConfig::default() }));
        };
        let number = |value: i64, what: &str| {
            u64::try_from(value)
                .map_err(|_| Refusal::invalid(format!("{}: {what} is {value}; it cannot be negative", object.name)))
        };
        let config = DigestConfig {
            max_timeout_ns: number(config.max_timeout_ns, "max_timeout_ns")?,
            max_list_size: number(config.max_list_size.into(), "max_list_size")? as u32,
            ack_timeout_ns: number(config.ack_timeout_ns, "ack_timeout_ns")?,
        };
        Ok(Some(DigestWrite { digest, kind, config }))
    }

    /// The digests that a read asks for.
    ///
    /// # Errors
    /// `NOT_FOUND` for an unknown id.
    pub fn digests_wanted(&self, wanted: &v1::DigestEntry) -> Result<Vec<ExternId>, Refusal> {
        match wanted.digest_id {
            0 => Ok(self.digests.values().map(|(object, _)| object.id).collect()),
            id => Ok(vec![find(&self.digests, id, "digest")?.0.id]),
        }
    }

    /// A configuration as an entity; `None` if P4Info does not show the digest.
    pub fn digest_entry(&self, digest: ExternId, config: &DigestConfig) -> Option<v1::Entity> {
        let config = v1::digest_entry::Config {
            max_timeout_ns: i64::try_from(config.max_timeout_ns).unwrap_or(i64::MAX),
            max_list_size: i32::try_from(config.max_list_size).unwrap_or(i32::MAX),
            ack_timeout_ns: i64::try_from(config.ack_timeout_ns).unwrap_or(i64::MAX),
        };
        let entry = v1::DigestEntry { digest_id: self.digest_number(digest)?, config: Some(config) };
        Some(entity(v1::entity::Entity::DigestEntry(entry)))
    }

    /// A digest's id in P4Info.
    pub fn digest_number(&self, digest: ExternId) -> Option<u32> {
        self.digests.values().map(|(object, _)| object).find(|object| object.id == digest).map(|object| object.number)
    }

    /// A digest message for `DigestList.data`; `values` are the leaves of its type.
    ///
    /// # Errors
    /// `INTERNAL` if they are not, `UNIMPLEMENTED` if the type has values that P4Runtime cannot say.
    pub fn digest(&self, digest: ExternId, values: &[BigUint]) -> Result<v1::P4Data, Refusal> {
        let found = self.digests.values().find(|(object, _)| object.id == digest);
        let kind = self.pipeline.externs.get(digest).map(|object| &object.kind);
        let (Some((object, spec)), Some(ExternKind::Digest { fields, .. })) = (found, kind) else {
            return Err(Refusal::new(crate::Code::Internal, format!("object {} is no digest", digest.0)));
        };
        self.data(&object.name, spec, fields, values)
    }
}
