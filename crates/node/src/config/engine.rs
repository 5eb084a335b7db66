//! Checks of `engine`, `[cache]` and `[switch]`, and what they come to.

use super::Checker;
use super::model::{CacheKind, CacheSetting, ConfigFile, Engine, SwitchEngine, SwitchSetting};
use crate::engine::{Factory, Room, native, reference};

impl CacheKind {
    /// Whether it is a model of a SmartNIC's cache.
    pub fn is_model(self) -> bool {
        match self {
            CacheKind::None | CacheKind::Rewrites | CacheKind::Xdp => false,
            CacheKind::Exact | CacheKind::Megaflow | CacheKind::SubTraversal | CacheKind::Adaptive => true,
        }
    }
}

impl Checker<'_> {
    pub(super) fn engine(&mut self, file: &ConfigFile) -> Factory {
        let chip = self.chip(&file.switch);
        let Some(tiers) = &file.tiers else { return self.undivided(file, chip) };
        let above = match tiers.switch {
            SwitchEngine::Asic => chip.unwrap_or_else(native),
            SwitchEngine::Jit => native(),
            SwitchEngine::Interp => reference(),
        };
        self.tiers(file, tiers, above)
    }

    /// The chip of `[switch]`, which is checked whether a program runs on it or not.
    fn chip(&mut self, setting: &SwitchSetting) -> Option<Factory> {
        let SwitchSetting { fold, sizes, room, .. } = setting;
        if fold.is_some_and(|pipes| ![1, 2, 4].contains(&pipes)) {
            self.wrong("fold", "`fold` is 1, 2 or 4; without it, the fewest with which a program fits".to_owned());
        }
        if *room == 0 {
            self.wrong("room", "`room` is 1 at least; without it, tables have room for 1024 entries".to_owned());
        }
        let text = self.file("sizes", sizes.as_ref());
        let sizing = sizes.as_ref().zip(text).map(|(path, text)| (path.display().to_string(), text));
        let room = Room { sizing, others: *room, ..Room::default() };
        self.wings.switch?.chip(setting, room).map_err(|message| self.wrong("target", message)).ok()
    }

    /// The engine of a program that is not divided.
    fn undivided(&mut self, file: &ConfigFile, chip: Option<Factory>) -> Factory {
        let kind = file.cache.kind;
        match (file.engine, kind) {
            (Engine::Jit, CacheKind::None) => native(),
            (Engine::Interp, CacheKind::None) => reference(),
            (Engine::Asic, CacheKind::None) => {
                if self.wings.switch.is_none() {
                    self.lacks("engine", "the emulated switch");
                }
                chip.unwrap_or_else(native)
            }
            (Engine::Jit, CacheKind::Rewrites | CacheKind::Xdp) => self.cache(&file.cache, kind),
            (Engine::Interp, kind) if kind.is_model() => self.cache(&file.cache, kind),
            (engine, kind) => {
                let message = match (engine, kind.is_model()) {
                    (Engine::Asic, _) => {
                        "an emulated switch has no cache in front of it; take it away, or divide programs with [tiers]"
                    }
                    (_, true) => {
                        "the model of a SmartNIC's cache is in front of the reference engine: set engine = \"interp\"; for speed, take `rewrites` or `xdp`"
                    }
                    (_, false) => "`rewrites` and `xdp` are in front of native code: set engine = \"jit\"",
                };
                self.wrong("kind", message.to_owned());
                native()
            }
        }
    }

    /// A cache of the kind; what it is in front of is checked elsewhere.
    pub(super) fn cache(&mut self, setting: &CacheSetting, kind: CacheKind) -> Factory {
        let CacheSetting { tables, entries, slow_path_pps, slow_path_least_percent, .. } = setting;
        if tables.is_some_and(|tables| !(1..=8).contains(&tables)) {
            self.wrong("tables", "`tables` is 1 to 8; without it, a chain has 4".to_owned());
        }
        if kind == CacheKind::Xdp && entries.is_some_and(|entries| !(1..=1 << 22).contains(&entries)) {
            self.wrong("entries", "`entries` of the kernel's cache is 1 to 4194304; without it, 16384".to_owned());
        }
        for (name, zero) in [("entries", *entries == Some(0)), ("slow_path_pps", *slow_path_pps == Some(0))] {
            if zero && kind != CacheKind::Xdp {
                self.wrong(name, format!("`{name}` is 1 at least"));
            }
        }
        if slow_path_least_percent.is_some_and(|percent| !(1..=100).contains(&percent)) {
            self.wrong("slow_path_least_percent", "`slow_path_least_percent` is 1 to 100".to_owned());
        }
        match self.wings.caches {
            Some(caches) => caches.cache(setting, kind),
            None => {
                self.lacks("kind", "flow caches");
                native()
            }
        }
    }

    /// This binary was built without a wing that the configuration asks for.
    pub(super) fn lacks(&mut self, near: &str, what: &str) {
        let message = format!(
            "this program was built without {what}; take one that was built with the cargo feature `wings`, as packages are, or take this away"
        );
        self.wrong(near, message);
    }
}
