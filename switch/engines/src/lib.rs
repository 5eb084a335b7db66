//! The switch wing's engines: a program placed on an emulated chip, and a program divided among tiers.
//!
//! | what | where |
//! |---|---|
//! | the emulated switch as a node's engine | `chip.rs` |
//! | which chip it is, and what is where on it | `plan.rs` |
//! | a program divided among tiers, and what moves between them | `tiers/` |

mod chip;
mod plan;
pub mod tiers;

pub use plan::{Compress, Made, NoPlan, SwitchPlan};

use asic::target::Target;
use node::config::{SwitchSetting, TiersSetting};
use node::engine::{Factory, Room};
use node::wings::{Division, SwitchWing};
use offload::cut::Held;
use std::sync::Arc;
use std::time::Duration;
use tiers::TiersPlan;

/// The wing, for the composition of a binary.
pub struct Switch;

impl SwitchWing for Switch {
    fn chip(&self, setting: &SwitchSetting, room: Room) -> Result<Factory, String> {
        let SwitchSetting { target, fold, compress, .. } = setting;
        let target = find_target(target)?;
        Ok(Arc::new(SwitchPlan { target, fold: *fold, compress: Compress(compress.clone()), room }))
    }

    fn tiers(&self, division: Division<'_>) -> Factory {
        let Division { setting, above, below, down, up } = division;
        let TiersSetting { hot, absent, key, down_port, spread, silence_ms, choose_ms, .. } = setting;
        let hot = hot.iter().map(|(name, entries)| (name.clone(), Held::Hot(*entries)));
        let held = hot.chain(absent.iter().map(|name| (name.clone(), Held::Absent))).collect();
        Arc::new(TiersPlan {
            above,
            below,
            held,
            key: *key,
            down_port: *down_port,
            down,
            up,
            spread: spread.clone(),
            silence: Duration::from_millis(*silence_ms),
            choose: Duration::from_millis(*choose_ms),
        })
    }
}

/// A chip that is shipped, or that of a file.
fn find_target(name: &str) -> Result<Target, String> {
    if let Some(target) = Target::shipped(name) {
        return Ok(target);
    }
    let known = Target::SHIPPED.join(", ");
    std::fs::read_to_string(name)
        .map_err(|error| format!("{name}: {error}; give a target file, or one of {known}"))
        .and_then(|text| Target::from_toml(&text, name).map_err(|error| error.to_string()))
}
