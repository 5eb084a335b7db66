//! Engines of divided programs, as a node asks for them.

use super::control::Tiers;
use super::plan::TiersPlan;
use interp::Config;
use ir::Pipeline;
use node::engine::{Controlled, EngineFactory, Factory, Room};
use p4runtime::Refusal;
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

    fn load(&self, pipeline: &Arc<Pipeline>, settings: &Config) -> Result<Box<dyn Controlled>, Refusal> {
        if settings.ports.as_ref().is_some_and(|ports| ports.contains(&self.down_port)) {
            let port = self.down_port;
            return Err(Refusal::unimplemented(format!(
                "port {port} is a front port, and the one that leads to the tiers below: give `down_port` another number"
            )));
        }
        Ok(Box::new(Tiers::new(self, pipeline, settings)?))
    }

    fn has_ports_elsewhere(&self) -> bool {
        self.above.is_none()
    }

    fn with_room(&self, room: &Room) -> Option<Factory> {
        let above = self.above.as_ref()?.with_room(room)?;
        Some(Arc::new(TiersPlan { above: Some(above), ..self.clone() }))
    }
}
