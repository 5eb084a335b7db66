//! Engine factory of caches in user space.

use crate::plan::CachePlan;
use crate::{model, rewrites};
use interp::Config;
use ir::Pipeline;
use node::engine::{EngineControl, EngineFactory};
use p4runtime::P4RuntimeError;
use std::sync::Arc;

impl EngineFactory for CachePlan {
    fn name(&self) -> &'static str {
        if self.is_rewrite_cache { "jit" } else { "interp" }
    }

    fn cache(&self) -> &'static str {
        self.kind()
    }

    fn load(&self, pipeline: &Arc<Pipeline>, settings: &Config) -> Result<Box<dyn EngineControl>, P4RuntimeError> {
        let engine = match self.is_rewrite_cache {
            true => rewrites::load(self, pipeline, settings),
            false => model::load(self, pipeline, settings),
        };
        engine.map_err(P4RuntimeError::unimplemented)
    }
}
