//! Engines of the switch: a program placed on an emulated chip, and a program partitioned over
//! tiers.
//!
//! | topic | file |
//! |---|---|
//! | emulated switch as a node's engine | `chip.rs` |
//! | choice and placement of the chip | `plan.rs` |
//! | program partitioned over tiers, and the traffic between them | `tiers/` |

mod chip;
mod plan;
pub mod tiers;

pub use plan::{Compress, PlacedProgram, SwitchPlan, SwitchPlanError};

use asic::target::ChipTarget;
use node::config::{SwitchSetting, TiersSetting};
use node::engine::{ChipSizing, SharedEngineFactory};
use node::wings::{SwitchWing, TierDivision};
use offload::partition::TableMode;
use std::sync::Arc;
use std::time::Duration;
use tiers::TiersPlan;

/// Implementation of [`SwitchWing`] for binaries that include the switch engines.
pub struct SwitchEngines;

impl SwitchWing for SwitchEngines {
    fn chip_factory(&self, setting: &SwitchSetting, room: ChipSizing) -> Result<SharedEngineFactory, String> {
        let SwitchSetting { target, fold, compress, .. } = setting;
        let target = find_target(target)?;
        Ok(Arc::new(SwitchPlan { target, fold: *fold, compress: Compress(compress.clone()), room }))
    }

    /// Returns the factory of an engine for a program partitioned over tiers, as the configuration
    /// says.
    fn tiers_factory(&self, division: TierDivision<'_>) -> SharedEngineFactory {
        let TierDivision { setting, above, below, down, up } = division;
        let TiersSetting {
            hot,
            absent,
            bridge_key,
            lower_port,
            affinity_object,
            probe_timeout_ms,
            hot_interval_ms,
            ..
        } = setting;
        let hot = hot.iter().map(|(name, entries)| (name.clone(), TableMode::Hot(*entries)));
        let table_modes = hot.chain(absent.iter().map(|name| (name.clone(), TableMode::Absent))).collect();
        Arc::new(TiersPlan {
            above,
            below,
            table_modes,
            key: *bridge_key,
            lower_port: *lower_port,
            down,
            up,
            affinity_object: affinity_object.clone(),
            link_timeout: Duration::from_millis(*probe_timeout_ms),
            reselect_interval: Duration::from_millis(*hot_interval_ms),
        })
    }
}

/// Returns a shipped chip, or the one of a target file.
fn find_target(name: &str) -> Result<ChipTarget, String> {
    if let Some(target) = ChipTarget::shipped(name) {
        return Ok(target);
    }
    let known = ChipTarget::SHIPPED.join(", ");
    std::fs::read_to_string(name)
        .map_err(|error| format!("{name}: {error}; give a target file, or one of {known}"))
        .and_then(|text| ChipTarget::from_toml(&text, name).map_err(|error| error.to_string()))
}
