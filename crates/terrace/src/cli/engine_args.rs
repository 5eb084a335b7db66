//! Which engine runs a program, as commands are told.

use super::failure::Failure;
use super::plan::target;
use crate::gateway::engine::room;
use asic::target::Target;
use clap::{Args, ValueEnum};
use interp::Config;
use io::dpdk::DpdkOptions;
use io::xdp::Mode;
use io::{OpenedPort, PortError, PortKind, open_port};
use ir::Pipeline;
use node::engine::{CachePlan, Choice, Compress, Controlled, SwitchPlan, XdpPlan};
use node::tiers::TiersPlan;
use offload::cut::Held;
use std::sync::Arc;
use tables::WriteBatch;

/// Which engine runs the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
enum EngineKind {
    /// Native code for batches of packets
    #[default]
    Jit,
    /// The reference engine: slow, one packet at a time
    Interp,
    /// A flow cache in front of the reference engine: what packets did is done again for packets like them
    #[value(name = "flowcache")]
    FlowCache,
    /// The same with rewrites of bytes, made of what native code did
    Rewrites,
    /// A flow cache in the kernel (XDP), attached to the ports, in front of native code
    Xdp,
    /// An emulated switch: the program is placed on a chip (`--target`, `--fold`), and runs as that would run it; slow
    Asic,
    /// Tiers together: what the switch holds of the program (`--hot`, `--absent`) runs on an emulated switch, the rest behind a flow cache
    Tiers,
}

/// `--engine`, and the chip.
#[derive(Clone, Debug, Args)]
pub struct EngineArgs {
    /// What runs the program.
    #[arg(long, value_name = "ENGINE", value_enum, default_value_t)]
    engine: EngineKind,
    /// With `--engine asic`: the chip, one that is shipped (tofino1, tofino2, dpu8) or a target file.
    #[arg(long, value_name = "NAME|FILE.toml", default_value = "tofino1")]
    target: String,
    /// With `--engine asic`: pipes that stand one behind the other; unless given, the fewest of 1, 2 and 4 with which the program fits.
    #[arg(long, value_name = "PIPES", value_parser = ["1", "2", "4"])]
    fold: Option<String>,
    /// The flow cache in the kernel, loaded when a port or the engine asks for it.
    #[arg(skip)]
    xdp: XdpPlan,
    /// With `--engine asic`: how tables are made smaller, as `terrace plan --compress` takes it.
    #[arg(long, value_name = "auto|none|STEPS", default_value = "none")]
    compress: String,
    /// With `--engine tiers`: a table of which the switch has so many entries, those that are hit most.
    #[arg(long, value_name = "TABLE=ENTRIES", value_parser = hot)]
    hot: Vec<(String, u64)>,
    /// With `--engine tiers`: a table that is not on the switch.
    #[arg(long, value_name = "TABLE")]
    absent: Vec<String>,
}

/// A table and its hot entries.
fn hot(text: &str) -> Result<(String, u64), String> {
    let parts = text.rsplit_once('=').and_then(|(table, entries)| Some((table.to_owned(), entries.parse().ok()?)));
    parts.ok_or_else(|| "give a table and a number of entries, as in vm_nc_v4=1000".to_owned())
}

impl EngineArgs {
    /// The engine for a program. A chip gets room for `entries`, which are still to be written.
    ///
    /// # Errors
    /// No such chip, or the program does not fit: why not, and what comes nearest.
    pub fn load(
        &self,
        pipeline: &Arc<Pipeline>,
        config: &Config,
        entries: &WriteBatch,
    ) -> Result<Box<dyn Controlled>, Failure> {
        let choice = match self.engine {
            EngineKind::Jit => Choice::Jit,
            EngineKind::Interp => Choice::Interp,
            EngineKind::FlowCache => Choice::FlowCache(CachePlan::default()),
            EngineKind::Rewrites => Choice::FlowCache(CachePlan { rewrites: true, ..CachePlan::default() }),
            EngineKind::Xdp => Choice::Xdp(self.xdp.clone()),
            EngineKind::Asic => self.chip(pipeline, entries)?,
            EngineKind::Tiers => {
                let hot = self.hot.iter().map(|(table, entries)| (table.clone(), Held::Hot(*entries)));
                let held = hot.chain(self.absent.iter().map(|table| (table.clone(), Held::Absent))).collect();
                let below = Choice::FlowCache(CachePlan::default());
                Choice::Tiers(Box::new(TiersPlan::here(self.chip(pipeline, entries)?, below, held)))
            }
        };
        choice.load(pipeline, config).map_err(|refusal| match self.engine {
            EngineKind::Asic | EngineKind::Tiers => Failure::Refused(refusal.message),
            // They take whatever compiles.
            EngineKind::Jit | EngineKind::Interp | EngineKind::FlowCache | EngineKind::Rewrites | EngineKind::Xdp => {
                Failure::Bug(refusal.message)
            }
        })
    }

    /// An emulated switch with room for the entries.
    fn chip(&self, pipeline: &Pipeline, entries: &WriteBatch) -> Result<Choice, Failure> {
        Ok(Choice::Asic(Box::new(SwitchPlan {
            target: target(&self.target)?,
            fold: self.fold.as_ref().and_then(|pipes| pipes.parse().ok()),
            compress: Compress(self.compress.clone()),
            room: room(pipeline, entries),
        })))
    }

    /// Opens an interface of this thread's network namespace as the port of that number: with the flow cache in the kernel, if that is the engine; in the
    /// lab behind the driver, as the wires' other ends take no packets from programs there.
    ///
    /// # Errors
    /// See [`open_port`].
    pub fn open_port(
        &self,
        (interface, number): (&str, u32),
        (kind, in_lab): (PortKind, bool),
        options: &DpdkOptions,
    ) -> Result<OpenedPort, PortError> {
        let mode = if in_lab { Mode::Generic } else { Mode::Native };
        match (self.engine, kind) {
            (EngineKind::Xdp, PortKind::Auto) => self.xdp.open_as(interface, number, mode),
            _ => open_port(interface, kind, options),
        }
    }

    /// The same for another `terrace`, in whatever directory that works.
    pub fn arguments(&self) -> Vec<String> {
        let target = match Target::shipped(&self.target) {
            Some(_) => self.target.clone(),
            None => std::path::absolute(&self.target)
                .map_or_else(|_| self.target.clone(), |path| path.display().to_string()),
        };
        let kind = self.engine.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
        let mut all = vec!["--engine".to_owned(), kind, "--target".to_owned(), target];
        all.extend(["--compress".to_owned(), self.compress.clone()]);
        all.extend(self.fold.iter().flat_map(|pipes| ["--fold".to_owned(), pipes.clone()]));
        all.extend(self.hot.iter().flat_map(|(table, entries)| ["--hot".to_owned(), format!("{table}={entries}")]));
        all.extend(self.absent.iter().flat_map(|table| ["--absent".to_owned(), table.clone()]));
        all
    }
}
