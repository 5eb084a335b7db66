//! Checks of `[tiers]`.

use super::Checker;
use super::model::{CacheKind, ConfigFile, Engine, Leads, Tier, TiersSetting};
use crate::engine::{Factory, native, reference};
use crate::wings::Division;

impl Checker<'_> {
    /// How programs are divided; `above` runs the switch's half, if it is here.
    pub(super) fn tiers(&mut self, file: &ConfigFile, setting: &TiersSetting, above: Factory) -> Factory {
        let TiersSetting { here, hot, absent, down_port, silence_ms, .. } = setting;
        let has = |tier: Tier| here.contains(&tier);
        let ports = |leads: Leads| {
            let all = file.ports.iter().filter(move |port| port.leads == Some(leads));
            all.map(|port| port.number).collect::<Vec<u32>>()
        };
        let (down, up) = (ports(Leads::Down), ports(Leads::Up));
        if has(Tier::Dpu) && !has(Tier::Cpu) {
            self.wrong("here", "`dpu` is without `cpu`: what the flow cache does not know takes the slow path in the same process; add \"cpu\"".to_owned());
        }
        if here.is_empty() {
            self.wrong("here", "`here` names no tier: give \"switch\", or \"dpu\" and \"cpu\", or all".to_owned());
        }
        if has(Tier::Switch) && !has(Tier::Cpu) && down.is_empty() {
            self.wrong("here", "the switch is alone: give a port with leads = \"down\", or add \"cpu\"".to_owned());
        }
        if has(Tier::Switch) && !up.is_empty() {
            self.wrong(
                "leads",
                "the switch is in this process, and a port with leads = \"up\" leads to one: take one away".to_owned(),
            );
        }
        if !has(Tier::Switch) && up.is_empty() && !here.is_empty() {
            self.wrong(
                "here",
                "there is no switch here, and no port to one: give a port with leads = \"up\"".to_owned(),
            );
        }
        if !has(Tier::Switch) && !down.is_empty() {
            self.wrong("leads", "ports with leads = \"down\" are the switch's, which is not here".to_owned());
        }
        if let Some(port) = file.ports.iter().find(|port| port.number == *down_port) {
            let message = format!("port {down_port} is that of `{}`; give `down_port` another number", port.device);
            self.wrong("down_port", message);
        }
        if file.cpu_port == *down_port {
            self.wrong("down_port", format!("port {down_port} is the CPU port; give `down_port` another number"));
        }
        for name in absent.iter().filter(|name| hot.contains_key(*name)) {
            self.wrong(name, format!("table `{name}` is both hot and absent: one of them"));
        }
        if *silence_ms < 50 {
            self.wrong("silence_ms", "`silence_ms` is 50 at least: tiers are asked ten times a second".to_owned());
        }
        let below = self.below(file, has(Tier::Dpu));
        let Some(switch) = self.wings.switch else {
            self.lacks("tiers", "tiers");
            return below;
        };
        switch.tiers(Division {
            setting,
            above: has(Tier::Switch).then_some(above),
            below: (has(Tier::Cpu) || has(Tier::Dpu)).then_some(below),
            down,
            up,
        })
    }

    /// What runs the lower half: with a DPU, a flow cache in front of it.
    fn below(&mut self, file: &ConfigFile, has_dpu: bool) -> Factory {
        if file.engine == Engine::Asic {
            let message =
                "with [tiers], `engine` is what runs the lower half: \"jit\" or \"interp\"; the chip is `switch`";
            self.wrong("engine", message.to_owned());
        }
        let kind = match (has_dpu, file.cache.kind) {
            (true, CacheKind::None) => CacheKind::Adaptive,
            (true, CacheKind::Xdp) => {
                self.wrong("kind", "the kernel's cache stands at ports, not between tiers; take `rewrites`".to_owned());
                CacheKind::Rewrites
            }
            (true, kind) => kind,
            (false, CacheKind::None) if file.engine == Engine::Interp => return reference(),
            (false, CacheKind::None) => return native(),
            (false, _) => {
                self.wrong("kind", "the cache is the DPU's: add \"dpu\" to `here`, or take it away".to_owned());
                return native();
            }
        };
        self.cache(&file.cache, kind)
    }
}
