//! Engines with a cache in user space, as a node asks for them.

use crate::plan::CachePlan;
use crate::{model, rewrites};
use interp::Config;
use ir::Pipeline;
use node::engine::{Controlled, EngineFactory};
use p4runtime::Refusal;
use std::sync::Arc;

impl EngineFactory for CachePlan {
    fn name(&self) -> &'static str {
        if self.rewrites { "jit" } else { "interp" }
    }

    fn cache(&self) -> &'static str {
        self.kind()
    }

    fn load(&self, pipeline: &Arc<Pipeline>, settings: &Config) -> Result<Box<dyn Controlled>, Refusal> {
        let engine = match self.rewrites {
            true => rewrites::load(self, pipeline, settings),
            false => model::load(self, pipeline, settings),
        };
        engine.map_err(Refusal::unimplemented)
    }
}
