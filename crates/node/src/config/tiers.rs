//! Checks `[tiers]`.

use super::ConfigChecker;
use super::model::{CacheKind, ConfigFile, EngineSetting, Tier, TierLink, TiersSetting};
use crate::engine::{SharedEngineFactory, native, reference};
use crate::wings::TierDivision;

impl ConfigChecker<'_> {
    /// Creates the factory for partitioned programs; `above` runs the switch's half, if it is in
    /// this process.
    pub(super) fn check_tiers(
        &mut self,
        file: &ConfigFile,
        setting: &TiersSetting,
        above: SharedEngineFactory,
    ) -> SharedEngineFactory {
        let TiersSetting { local, hot, absent, lower_port, probe_timeout_ms, .. } = setting;
        let has = |tier: Tier| local.contains(&tier);
        let ports = |link: TierLink| {
            let all = file.ports.iter().filter(move |port| port.tier_link == Some(link));
            all.map(|port| port.number).collect::<Vec<u32>>()
        };
        let (down, up) = (ports(TierLink::Lower), ports(TierLink::Upper));
        if has(Tier::Dpu) && !has(Tier::Cpu) {
            self.add_error("local", "`dpu` is without `cpu`: what the flow cache does not know takes the slow path in the same process; add \"cpu\"".to_owned());
        }
        if local.is_empty() {
            self.add_error(
                "local",
                "`local` names no tier: give \"switch\", or \"dpu\" and \"cpu\", or all".to_owned(),
            );
        }
        if has(Tier::Switch) && !has(Tier::Cpu) && down.is_empty() {
            self.add_error(
                "local",
                "the switch is alone: give a port with tier_link = \"lower\", or add \"cpu\"".to_owned(),
            );
        }
        if has(Tier::Switch) && !up.is_empty() {
            self.add_error(
                "tier_link",
                "the switch is in this process, and a port with tier_link = \"upper\" leads to one: take one away"
                    .to_owned(),
            );
        }
        if !has(Tier::Switch) && up.is_empty() && !local.is_empty() {
            self.add_error(
                "local",
                "there is no switch here, and no port to one: give a port with tier_link = \"upper\"".to_owned(),
            );
        }
        if !has(Tier::Switch) && !down.is_empty() {
            self.add_error(
                "tier_link",
                "ports with tier_link = \"lower\" are the switch's, which is not here".to_owned(),
            );
        }
        if let Some(port) = file.ports.iter().find(|port| port.number == *lower_port) {
            let message = format!("port {lower_port} is that of `{}`; give `lower_port` another number", port.device);
            self.add_error("lower_port", message);
        }
        if file.cpu_port == *lower_port {
            self.add_error(
                "lower_port",
                format!("port {lower_port} is the CPU port; give `lower_port` another number"),
            );
        }
        for name in absent.iter().filter(|name| hot.contains_key(*name)) {
            self.add_error(name, format!("table `{name}` is both hot and absent: one of them"));
        }
        if *probe_timeout_ms < 50 {
            self.add_error(
                "probe_timeout_ms",
                "`probe_timeout_ms` is 50 at least: tiers are probed ten times a second".to_owned(),
            );
        }
        let below = self.check_lower_half(file, has(Tier::Dpu));
        let Some(switch) = self.wings.switch else {
            self.add_missing_wing_error("tiers", "tiers");
            return below;
        };
        switch.tiers_factory(TierDivision {
            setting,
            above: has(Tier::Switch).then_some(above),
            below: (has(Tier::Cpu) || has(Tier::Dpu)).then_some(below),
            down,
            up,
        })
    }

    /// Creates the engine of the lower half: with a DPU, including a flow cache.
    fn check_lower_half(&mut self, file: &ConfigFile, has_dpu: bool) -> SharedEngineFactory {
        if file.engine == EngineSetting::Asic {
            let message = "with [tiers], `engine` is what runs the lower half: \"jit\" or \"interp\"; the chip is `switch_engine`";
            self.add_error("engine", message.to_owned());
        }
        let kind = match (has_dpu, file.cache.kind) {
            (true, CacheKind::None) => CacheKind::Adaptive,
            (true, CacheKind::Xdp) => {
                self.add_error(
                    "kind",
                    "the kernel's cache is attached to ports, not between tiers; use `rewrites`".to_owned(),
                );
                CacheKind::Rewrites
            }
            (true, kind) => kind,
            (false, CacheKind::None) if file.engine == EngineSetting::Interp => return reference(),
            (false, CacheKind::None) => return native(),
            (false, _) => {
                self.add_error("kind", "the cache is the DPU's: add \"dpu\" to `local`, or take it away".to_owned());
                return native();
            }
        };
        self.check_cache(&file.cache, kind)
    }
}
