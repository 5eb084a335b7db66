//! The reference engine.

use super::Controlled;
use super::inside::{Inside, in_turns};
use interp::{Config, IdleEntry, Interp};
use ir::Pipeline;
use std::sync::Arc;
use tables::{WriteBatch, WriteError};

/// Why there is no native code where a configuration says so.
pub(super) const ASKED: &str = "asked";

pub(super) fn load(pipeline: &Arc<Pipeline>, settings: &Config) -> Result<Box<dyn Controlled>, String> {
    let engine = Interp::new(pipeline.clone(), settings.clone()).map_err(|error| error.to_string())?;
    Ok(in_turns(pipeline, engine, Some(ASKED.to_owned())))
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
