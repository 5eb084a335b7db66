//! [`Program`]: the pipeline that runs, as clients see it.

use crate::proto::v1;
use crate::translate::{DigestConfig, Schema};
use crate::{Code, Device, Forwarding, Refusal};
use entries::UpdateKind;
use std::collections::BTreeMap;

/// Digests that are enabled, by their numbers in P4Info.
pub type DigestConfigs = BTreeMap<u32, DigestConfig>;

/// The pipeline that runs and its names in protobuf.
pub struct Program {
    /// As it was given.
    pub forwarding: Forwarding,
    /// To translate with.
    pub schema: Schema,
}

impl Program {
    /// For a config of a device.
    pub fn new(forwarding: Forwarding, device: &dyn Device) -> Program {
        let schema = Schema::with_translations(forwarding.pipeline.clone(), &device.translations());
        Program { schema, forwarding }
    }

    /// Whether the program has a digest of that number.
    pub fn has_digest(&self, id: u32) -> bool {
        let info = self.schema.p4info();
        info.digests.iter().any(|digest| digest.preamble.as_ref().is_some_and(|preamble| preamble.id == id))
    }

    /// Enables, changes or disables a digest; whether the update is of one.
    ///
    /// # Errors
    /// `ALREADY_EXISTS`, `NOT_FOUND`, `INVALID_ARGUMENT`.
    pub fn configure(&self, configs: &mut DigestConfigs, update: &v1::Update) -> Result<bool, Refusal> {
        let Some(write) = self.schema.digest_write(update)? else { return Ok(false) };
        let number = self.schema.digest_number(write.digest).unwrap_or_default();
        match (write.kind, configs.contains_key(&number)) {
            (UpdateKind::Insert, true) => {
                let why = format!("digest {number:#x} is enabled already; send MODIFY");
                return Err(Refusal::new(Code::AlreadyExists, why));
            }
            (UpdateKind::Modify | UpdateKind::Delete, false) => {
                return Err(Refusal::not_found(format!("digest {number:#x} is not enabled; send INSERT")));
            }
            (UpdateKind::Delete, true) => drop(configs.remove(&number)),
            (UpdateKind::Insert, false) | (UpdateKind::Modify, true) => drop(configs.insert(number, write.config)),
        }
        Ok(true)
    }

    /// The digests that a read asks for, as far as they are enabled.
    ///
    /// # Errors
    /// `NOT_FOUND` if the program has no such digest.
    pub fn read_digests(&self, configs: &DigestConfigs, wanted: &v1::DigestEntry) -> Result<Vec<v1::Entity>, Refusal> {
        let wanted = self.schema.digests_wanted(wanted)?;
        let one = |id| self.schema.digest_entry(id, configs.get(&self.schema.digest_number(id)?)?);
        Ok(wanted.into_iter().filter_map(one).collect())
    }
}
