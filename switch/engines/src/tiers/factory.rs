//! Factory of engines for partitioned programs.

use super::control::TiersEngine;
use super::plan::TiersPlan;
use interp::Config;
use ir::Pipeline;
use node::engine::{ChipSizing, EngineControl, EngineFactory, SharedEngineFactory};
use p4runtime::P4RuntimeError;
use std::sync::Arc;

impl EngineFactory for TiersPlan {
    fn name(&self) -> &'static str {
        self.below.as_ref().or(self.above.as_ref()).map_or("jit", |half| half.name())
    }

    fn cache(&self) -> &'static str {
        self.below.as_ref().map_or("none", |half| half.cache())
    }

    fn tiers(&self) -> Option<String> {
        let dpu = self.below.as_ref().is_some_and(|half| half.cache() != "none");
        let tiers = [("switch", self.above.is_some()), ("dpu", dpu), ("cpu", self.below.is_some())];
        let here: Vec<&str> = tiers.iter().filter(|(_, is_here)| *is_here).map(|(name, _)| *name).collect();
        Some(here.join(", "))
    }

    fn load(&self, pipeline: &Arc<Pipeline>, settings: &Config) -> Result<Box<dyn EngineControl>, P4RuntimeError> {
        if settings.ports.as_ref().is_some_and(|ports| ports.contains(&self.lower_port)) {
            let port = self.lower_port;
            return Err(P4RuntimeError::unimplemented(format!(
                "port {port} is a front port, and the one that leads to the tiers below: give `lower_port` another number"
            )));
        }
        Ok(Box::new(TiersEngine::new(self, pipeline, settings)?))
    }

    fn has_remote_ports(&self) -> bool {
        self.above.is_none()
    }

    fn with_chip_sizing(&self, room: &ChipSizing) -> Option<SharedEngineFactory> {
        let above = self.above.as_ref()?.with_chip_sizing(room)?;
        Some(Arc::new(TiersPlan { above: Some(above), ..self.clone() }))
    }
}
