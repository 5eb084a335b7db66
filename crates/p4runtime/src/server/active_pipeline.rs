//! [`ActivePipeline`]: the active pipeline with its schema.

use crate::proto::v1;
use crate::translate::{DigestConfig, Schema};
use crate::{Code, Device, P4RuntimeError, PipelineConfig};
use entries::UpdateKind;
use std::collections::BTreeMap;

/// Configs of the enabled digests by P4Info id.
pub type DigestConfigs = BTreeMap<u32, DigestConfig>;

/// Active pipeline with its names in protobuf.
pub struct ActivePipeline {
    /// Config as set by the controller.
    pub config: PipelineConfig,
    /// Schema for the translation of messages.
    pub schema: Schema,
}

impl ActivePipeline {
    /// Creates the program of a device's config.
    pub fn new(forwarding: PipelineConfig, device: &dyn Device) -> ActivePipeline {
        let schema = Schema::with_translations(forwarding.pipeline.clone(), &device.translations());
        ActivePipeline { schema, config: forwarding }
    }

    /// Returns whether the program has a digest with this id.
    pub fn has_digest(&self, id: u32) -> bool {
        let info = self.schema.p4info();
        info.digests.iter().any(|digest| digest.preamble.as_ref().is_some_and(|preamble| preamble.id == id))
    }

    /// Enables, changes or disables a digest. Returns whether the update is of a digest.
    ///
    /// # Errors
    /// `ALREADY_EXISTS`, `NOT_FOUND`, `INVALID_ARGUMENT`.
    pub fn configure(&self, configs: &mut DigestConfigs, update: &v1::Update) -> Result<bool, P4RuntimeError> {
        let Some(write) = self.schema.digest_write(update)? else { return Ok(false) };
        let number = self.schema.digest_number(write.digest).unwrap_or_default();
        match (write.kind, configs.contains_key(&number)) {
            (UpdateKind::Insert, true) => {
                let why = format!("digest {number:#x} is enabled already; send MODIFY");
                return Err(P4RuntimeError::new(Code::AlreadyExists, why));
            }
            (UpdateKind::Modify | UpdateKind::Delete, false) => {
                return Err(P4RuntimeError::not_found(format!("digest {number:#x} is not enabled; send INSERT")));
            }
            (UpdateKind::Delete, true) => drop(configs.remove(&number)),
            (UpdateKind::Insert, false) | (UpdateKind::Modify, true) => drop(configs.insert(number, write.config)),
        }
        Ok(true)
    }

    /// Returns the enabled digests that a read selects.
    ///
    /// # Errors
    /// `NOT_FOUND` if the program has no such digest.
    pub fn read_digests(
        &self,
        configs: &DigestConfigs,
        wanted: &v1::DigestEntry,
    ) -> Result<Vec<v1::Entity>, P4RuntimeError> {
        let wanted = self.schema.digests_wanted(wanted)?;
        let one = |id| self.schema.digest_entry(id, configs.get(&self.schema.digest_number(id)?)?);
        Ok(wanted.into_iter().filter_map(one).collect())
    }
}
