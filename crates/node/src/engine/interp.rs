//! The reference engine.

use super::inside::{Inside, in_turns};
use super::{Controlled, EngineFactory};
use entries::{WriteBatch, WriteError};
use interp::{Config, IdleEntry, Interp};
use ir::Pipeline;
use p4runtime::Refusal;
use std::sync::Arc;

/// Why there is no native code where a configuration asks for none.
pub const NOT_WANTED: &str = "asked";

/// `engine = "interp"`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reference;

impl EngineFactory for Reference {
    fn name(&self) -> &'static str {
        "interp"
    }

    fn load(&self, pipeline: &Arc<Pipeline>, settings: &Config) -> Result<Box<dyn Controlled>, Refusal> {
        let engine = Interp::new(pipeline.clone(), settings.clone());
        let engine = engine.map_err(|error| Refusal::unimplemented(error.to_string()))?;
        Ok(in_turns(pipeline, engine, Some(NOT_WANTED.to_owned())))
    }
}

impl Inside for Interp {
    type Of = Interp;

    const NAME: &'static str = "interp";

    fn inside(&mut self) -> &mut Interp {
        self
    }

    fn change(&mut self, batch: &WriteBatch) -> Result<(), WriteError> {
        self.write(batch)
    }

    fn pass(&mut self, now: u64) -> Vec<IdleEntry> {
        self.advance_time(now)
    }
}
