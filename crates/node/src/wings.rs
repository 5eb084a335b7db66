//! [`Wings`]: what a binary adds to native code and the reference engine.
//!
//! This crate knows no switch and no flow cache. A configuration may ask for either; then it is made by
//! the wing, which is linked by the binary: `crates/terraced/src/lib.rs` is the one place that names
//! them. A binary without a wing refuses such a configuration, and says so.

use crate::config::{CacheKind, CacheSetting, SwitchSetting, TiersSetting};
use crate::engine::{Factory, Room};
use crate::explain::CacheInput;
use crate::explain::offloaded::{CannotOffload, Offloaded};
use interp::Config;
use std::fmt;

/// The wings that a binary was built with.
#[derive(Clone, Copy, Default)]
pub struct Wings {
    /// The emulated switch, and programs that are divided among tiers.
    pub switch: Option<&'static dyn SwitchWing>,
    /// Flow caches.
    pub caches: Option<&'static dyn CacheWing>,
}

impl fmt::Debug for Wings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (switch, caches) = (self.switch.is_some(), self.caches.is_some());
        f.debug_struct("Wings").field("switch", &switch).field("caches", &caches).finish()
    }
}

/// The emulated switch, and programs that are divided among tiers.
pub trait SwitchWing: Sync {
    /// Programs as they are placed on a chip, with room for so many entries.
    ///
    /// # Errors
    /// There is no such chip, or its file is wrong: what to do.
    fn chip(&self, setting: &SwitchSetting, room: Room) -> Result<Factory, String>;

    /// Programs that are divided among tiers.
    fn tiers(&self, division: Division<'_>) -> Factory;
}

/// How programs are divided, and what runs their parts.
pub struct Division<'a> {
    /// As configured; it was checked.
    pub setting: &'a TiersSetting,
    /// What runs the upper half, if it is in this process.
    pub above: Option<Factory>,
    /// What runs the lower half, if it is in this process.
    pub below: Option<Factory>,
    /// Ports to tiers below in other processes.
    pub down: Vec<u32>,
    /// Ports to the switch, if it is in another process.
    pub up: Vec<u32>,
}

/// Flow caches.
pub trait CacheWing: Sync {
    /// A cache of this kind, which is not none, in front of what it is made for. The setting was checked.
    fn cache(&self, setting: &CacheSetting, kind: CacheKind) -> Factory;

    /// What a cache would keep of a packet that comes at `now` nanoseconds. Tables are copied for it.
    ///
    /// # Errors
    /// See [`CannotOffload`].
    fn explain(&self, input: &CacheInput<'_>, settings: &Config, now: u64) -> Result<Offloaded, CannotOffload>;
}
