//! Checks `engine`, `[cache]` and `[switch]`, and creates the engine factory.

use super::ConfigChecker;
use super::model::{CacheKind, CacheSetting, ConfigFile, EngineSetting, SwitchEngine, SwitchSetting};
use crate::engine::{ChipSizing, SharedEngineFactory, native, reference};

impl CacheKind {
    /// Returns whether the cache models that of a SmartNIC.
    pub fn is_model(self) -> bool {
        match self {
            CacheKind::None | CacheKind::Rewrites | CacheKind::Xdp => false,
            CacheKind::Exact | CacheKind::Megaflow | CacheKind::SubTraversal | CacheKind::Adaptive => true,
        }
    }
}

impl ConfigChecker<'_> {
    pub(super) fn check_engine(&mut self, file: &ConfigFile) -> SharedEngineFactory {
        let chip = self.check_chip(&file.switch);
        let Some(tiers) = &file.tiers else { return self.check_single_engine(file, chip) };
        let above = match tiers.switch_engine {
            SwitchEngine::Asic => chip.unwrap_or_else(native),
            SwitchEngine::Jit => native(),
            SwitchEngine::Interp => reference(),
        };
        self.check_tiers(file, tiers, above)
    }

    /// Creates the chip of `[switch]`, which is checked even if no program runs on it.
    fn check_chip(&mut self, setting: &SwitchSetting) -> Option<SharedEngineFactory> {
        let SwitchSetting { fold, sizing_file, default_table_entries, .. } = setting;
        if fold.is_some_and(|pipes| ![1, 2, 4].contains(&pipes)) {
            self.add_error("fold", "`fold` is 1, 2 or 4; without it, the fewest with which a program fits".to_owned());
        }
        if *default_table_entries == 0 {
            self.add_error(
                "default_table_entries",
                "`default_table_entries` is 1 at least; without it, tables have room for 1024 entries".to_owned(),
            );
        }
        let text = self.read_file("sizing_file", sizing_file.as_ref());
        let sizing = sizing_file.as_ref().zip(text).map(|(path, text)| (path.display().to_string(), text));
        let room = ChipSizing { sizing, others: *default_table_entries, ..ChipSizing::default() };
        self.wings.switch?.chip_factory(setting, room).map_err(|message| self.add_error("target", message)).ok()
    }

    /// Creates the engine of programs that are not partitioned over tiers.
    fn check_single_engine(&mut self, file: &ConfigFile, chip: Option<SharedEngineFactory>) -> SharedEngineFactory {
        let kind = file.cache.kind;
        match (file.engine, kind) {
            (EngineSetting::Jit, CacheKind::None) => native(),
            (EngineSetting::Interp, CacheKind::None) => reference(),
            (EngineSetting::Asic, CacheKind::None) => {
                if self.wings.switch.is_none() {
                    self.add_missing_wing_error("engine", "the emulated switch");
                }
                chip.unwrap_or_else(native)
            }
            (EngineSetting::Jit, CacheKind::Rewrites | CacheKind::Xdp) => self.check_cache(&file.cache, kind),
            (EngineSetting::Interp, kind) if kind.is_model() => self.check_cache(&file.cache, kind),
            (engine, kind) => {
                let message = match (engine, kind.is_model()) {
                    (EngineSetting::Asic, _) => {
                        "an emulated switch has no cache before it; remove it, or partition programs with [tiers]"
                    }
                    (_, true) => {
                        "the model of a SmartNIC's cache is in front of the reference engine: set engine = \"interp\"; for speed, take `rewrites` or `xdp`"
                    }
                    (_, false) => "`rewrites` and `xdp` are in front of native code: set engine = \"jit\"",
                };
                self.add_error("kind", message.to_owned());
                native()
            }
        }
    }

    /// Creates a cache of this kind. The caller checks the engine after the cache.
    pub(super) fn check_cache(&mut self, setting: &CacheSetting, kind: CacheKind) -> SharedEngineFactory {
        let CacheSetting { tables, max_entries, slow_path_max_pps, slow_path_min_cpu_percent, .. } = setting;
        if tables.is_some_and(|tables| !(1..=8).contains(&tables)) {
            self.add_error("tables", "`tables` is 1 to 8; without it, a chain has 4".to_owned());
        }
        if kind == CacheKind::Xdp && max_entries.is_some_and(|entries| !(1..=1 << 22).contains(&entries)) {
            self.add_error(
                "max_entries",
                "`max_entries` of the kernel's cache is 1 to 4194304; without it, 16384".to_owned(),
            );
        }
        let (no_entries, no_slow_path) = (*max_entries == Some(0), *slow_path_max_pps == Some(0));
        for (name, zero) in [("max_entries", no_entries), ("slow_path_max_pps", no_slow_path)] {
            if zero && kind != CacheKind::Xdp {
                self.add_error(name, format!("`{name}` is 1 at least"));
            }
        }
        if slow_path_min_cpu_percent.is_some_and(|percent| !(1..=100).contains(&percent)) {
            self.add_error("slow_path_min_cpu_percent", "`slow_path_min_cpu_percent` is 1 to 100".to_owned());
        }
        match self.wings.caches {
            Some(caches) => caches.cache_factory(setting, kind),
            None => {
                self.add_missing_wing_error("kind", "flow caches");
                native()
            }
        }
    }

    /// Adds an error for a configuration that requires a wing which this binary lacks.
    pub(super) fn add_missing_wing_error(&mut self, near: &str, what: &str) {
        let message = format!(
            "this program was built without {what}; use one that was built with the cargo feature `wings`, as packages are, or remove this"
        );
        self.add_error(near, message);
    }
}
