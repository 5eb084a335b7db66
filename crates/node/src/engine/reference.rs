//! The reference engine.

use super::wrapping::{WrappingEngine, shared_control};
use super::{EngineControl, EngineFactory};
use entries::{WriteBatch, WriteError};
use interp::{Config, IdleEntry, Interp};
use ir::Pipeline;
use p4runtime::P4RuntimeError;
use std::sync::Arc;

/// Reason for the absence of native code if the configuration selects the reference engine.
pub const REFERENCE_REQUESTED: &str = "asked";

/// Factory for `engine = "interp"`.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReferenceFactory;

impl EngineFactory for ReferenceFactory {
    fn name(&self) -> &'static str {
        "interp"
    }

    fn load(&self, pipeline: &Arc<Pipeline>, settings: &Config) -> Result<Box<dyn EngineControl>, P4RuntimeError> {
        let engine = Interp::new(pipeline.clone(), settings.clone());
        let engine = engine.map_err(|error| P4RuntimeError::unimplemented(error.to_string()))?;
        Ok(shared_control(pipeline, engine, Some(REFERENCE_REQUESTED.to_owned())))
    }
}

impl WrappingEngine for Interp {
    type Inner = Interp;

    const NAME: &'static str = "interp";

    fn inner_mut(&mut self) -> &mut Interp {
        self
    }

    fn write_batch(&mut self, batch: &WriteBatch) -> Result<(), WriteError> {
        self.write(batch)
    }

    fn expire_entries(&mut self, now: u64) -> Vec<IdleEntry> {
        self.advance_time(now)
    }
}
