//! [`Wings`]: optional engines that a binary adds to native code and the reference engine.
//!
//! This crate does not depend on any switch or flow cache. If a configuration requires one, a wing
//! creates it. The binary links the wings: `crates/terraced/src/lib.rs` is the only place that
//! names them. A binary without the required wing rejects the configuration with an error.

use crate::config::{CacheKind, CacheSetting, SwitchSetting, TiersSetting};
use crate::engine::{ChipSizing, SharedEngineFactory};
use crate::explain::CacheInput;
use crate::explain::offload::{OffloadError, OffloadReport};
use interp::Config;
use std::fmt;

/// The wings that a binary was built with.
#[derive(Clone, Copy, Default)]
pub struct Wings {
    /// The emulated switch, and programs partitioned over tiers.
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

/// The emulated switch, and programs partitioned over tiers.
pub trait SwitchWing: Sync {
    /// Creates a factory for programs that are placed on a chip with the table sizes of `room`.
    ///
    /// # Errors
    /// The chip does not exist, or its file is invalid. The message contains the fix.
    fn chip_factory(&self, setting: &SwitchSetting, room: ChipSizing) -> Result<SharedEngineFactory, String>;

    /// Creates a factory for programs that are partitioned over tiers.
    fn tiers_factory(&self, division: TierDivision<'_>) -> SharedEngineFactory;
}

/// How programs are partitioned over tiers, and the engines of the halves.
pub struct TierDivision<'a> {
    /// The configured partition, already checked.
    pub setting: &'a TiersSetting,
    /// Factory of the upper half, if it runs in this process.
    pub above: Option<SharedEngineFactory>,
    /// Factory of the lower half, if it runs in this process.
    pub below: Option<SharedEngineFactory>,
    /// Ports to lower tiers in other processes.
    pub down: Vec<u32>,
    /// Ports to the switch, if it is in another process.
    pub up: Vec<u32>,
}

/// Flow caches.
pub trait CacheWing: Sync {
    /// Creates a factory for a cache of this kind (not `None`) before the engine that the kind
    /// requires. The setting was checked.
    fn cache_factory(&self, setting: &CacheSetting, kind: CacheKind) -> SharedEngineFactory;

    /// Explains which part of a packet's path a cache would store, for a packet at time `now` (ns).
    /// Copies the tables.
    ///
    /// # Errors
    /// Returns [`OffloadError`].
    fn explain_offload(
        &self,
        input: &CacheInput<'_>,
        settings: &Config,
        now: u64,
    ) -> Result<OffloadReport, OffloadError>;
}
