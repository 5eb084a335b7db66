//! Which engine runs a program, as commands are told.

use super::failure::Failure;
use super::plan::target;
use asic::target::Target;
use clap::{Args, ValueEnum};
use interp::Config;
use ir::{Pipeline, TableId};
use node::config::{CacheKind, ConfigFile, Engine};
use node::engine::{CachePlan, Choice, Compress, Controlled, Room, SwitchPlan, XdpPlan};
use node::tiers::TiersPlan;
use offload::cut::Held;
use std::collections::BTreeMap;
use std::sync::Arc;
use tables::{Update, UpdateKind, WriteBatch};

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
            EngineKind::Xdp => Choice::Xdp(XdpPlan::default()),
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

    /// As a node's configuration has it.
    pub fn configure(&self, file: &mut ConfigFile) {
        (file.engine, file.cache.kind) = match self.engine {
            EngineKind::Jit => (Engine::Jit, file.cache.kind),
            EngineKind::Interp => (Engine::Interp, file.cache.kind),
            EngineKind::FlowCache => (Engine::FlowCache, file.cache.kind),
            EngineKind::Rewrites => (Engine::FlowCache, CacheKind::Rewrites),
            EngineKind::Xdp => (Engine::Xdp, file.cache.kind),
            EngineKind::Asic => (Engine::Asic, file.cache.kind),
            EngineKind::Tiers => (Engine::Tiers, file.cache.kind),
        };
        file.switch.target = self.absolute_target();
        file.switch.fold = self.fold.as_ref().and_then(|pipes| pipes.parse().ok());
        file.switch.compress.clone_from(&self.compress);
        file.tiers.hot = self.hot.iter().cloned().collect();
        file.tiers.absent.clone_from(&self.absent);
    }

    /// The chip, such that it is found from any directory.
    fn absolute_target(&self) -> String {
        match Target::shipped(&self.target) {
            Some(_) => self.target.clone(),
            None => std::path::absolute(&self.target)
                .map_or_else(|_| self.target.clone(), |path| path.display().to_string()),
        }
    }

    /// The same for another `terrace`, in whatever directory that works.
    pub fn arguments(&self) -> Vec<String> {
        let target = self.absolute_target();
        let kind = self.engine.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
        let mut all = vec!["--engine".to_owned(), kind, "--target".to_owned(), target];
        all.extend(["--compress".to_owned(), self.compress.clone()]);
        all.extend(self.fold.iter().flat_map(|pipes| ["--fold".to_owned(), pipes.clone()]));
        all.extend(self.hot.iter().flat_map(|(table, entries)| ["--hot".to_owned(), format!("{table}={entries}")]));
        all.extend(self.absent.iter().flat_map(|table| ["--absent".to_owned(), table.clone()]));
        all
    }
}

/// Entries that a chip has room for in each table at least, unless the program gives it a smaller size. It also has as many elements of each counter,
/// meter and register: a program declares them for all numbers that there can be, which no chip holds.
const LEAST_ROOM: u64 = 512;

/// Room for twice the entries that are to be written at first, and for some where there are few; never more than the program declares.
fn room(pipeline: &Pipeline, entries: &WriteBatch) -> Room {
    let mut count: BTreeMap<TableId, u64> = BTreeMap::new();
    for update in &entries.updates {
        match update {
            Update::Entry(UpdateKind::Insert, entry) => *count.entry(entry.table).or_default() += 1,
            Update::Packed(UpdateKind::Insert, entry) => *count.entry(entry.table).or_default() += 1,
            _ => {}
        }
    }
    let room = |(id, table): (TableId, &ir::Table)| {
        let own = table.entries.len() as u64;
        let wanted = (2 * count.get(&id).copied().unwrap_or(0)).max(LEAST_ROOM).max(own);
        (table.preamble.name.clone(), table.size.map_or(wanted, |size| wanted.min(size.max(1))))
    };
    Room { sizing: None, tables: pipeline.tables.iter().map(room).collect(), others: LEAST_ROOM }
}
