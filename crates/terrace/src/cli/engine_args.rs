//! Which engine runs a program, as commands are told.

use super::failure::Failure;
use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};
use entries::{Update, UpdateKind, WriteBatch};
use interp::Config;
use ir::{Pipeline, TableId};
use node::config::{self, CacheKind, ConfigFile, Engine, TiersSetting};
use node::engine::{Controlled, Room};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use terraced::wings;

/// `--engine`, `--cache`, `--tiers`, and the chip: as in a node's configuration.
#[derive(Clone, Debug, Args)]
pub struct EngineArgs {
    /// What runs the program.
    #[arg(long, value_name = "ENGINE", value_enum, default_value_t)]
    engine: Engine,
    /// The flow cache in front of it.
    #[arg(long, value_name = "KIND", value_enum, default_value_t)]
    cache: CacheKind,
    /// Divide the program among tiers: what the switch holds of it runs on an emulated switch, the rest behind a flow cache (`adaptive` unless --cache is given).
    #[arg(long)]
    tiers: bool,
    /// With `--engine asic` or `--tiers`: the chip, one that is shipped (tofino1, tofino2, dpu8) or a target file.
    #[arg(long, value_name = "NAME|FILE.toml", default_value = "tofino1")]
    target: String,
    /// Pipes of the chip that stand one behind the other; unless given, the fewest of 1, 2 and 4 with which the program fits.
    #[arg(long, value_name = "PIPES", value_parser = ["1", "2", "4"])]
    fold: Option<String>,
    /// How tables are made smaller for the chip, as `terrace plan --compress` takes it.
    #[arg(long, value_name = "auto|none|STEPS", default_value = "none")]
    compress: String,
    /// With `--tiers`: a table of which the switch has so many entries, those that are hit most.
    #[arg(long, value_name = "TABLE=ENTRIES", value_parser = hot, requires = "tiers")]
    hot: Vec<(String, u64)>,
    /// With `--tiers`: a table that is not on the switch.
    #[arg(long, value_name = "TABLE", requires = "tiers")]
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
        let mut file = usual_configuration()?;
        self.configure(&mut file);
        let factory = checked(&file)?.engine;
        let on_chip = factory.with_room(&room(pipeline, entries));
        let takes_everything = on_chip.is_none() && factory.tiers().is_none();
        on_chip.unwrap_or(factory).load(pipeline, config).map_err(|refusal| match takes_everything {
            true => Failure::Bug(refusal.message),
            false => Failure::Refused(refusal.message),
        })
    }

    /// As a node's configuration has it.
    pub fn configure(&self, file: &mut ConfigFile) {
        (file.engine, file.cache.kind) = (self.engine, self.cache);
        file.switch.target = self.absolute_target();
        file.switch.fold = self.fold.as_ref().and_then(|pipes| pipes.parse().ok());
        file.switch.compress.clone_from(&self.compress);
        file.tiers = self.tiers.then(|| TiersSetting {
            hot: self.hot.iter().cloned().collect(),
            absent: self.absent.clone(),
            ..TiersSetting::default()
        });
    }

    /// The chip, such that it is found from any directory.
    fn absolute_target(&self) -> String {
        match Path::new(&self.target).is_file() {
            true => std::path::absolute(&self.target)
                .map_or_else(|_| self.target.clone(), |path| path.display().to_string()),
            // It is shipped, or its name is refused later.
            false => self.target.clone(),
        }
    }

    /// The same for another `terrace`, in whatever directory that works.
    pub fn arguments(&self) -> Vec<String> {
        let name = |value: Option<PossibleValue>| value.map(|value| value.get_name().to_owned()).unwrap_or_default();
        let mut all = vec!["--engine".to_owned(), name(self.engine.to_possible_value())];
        all.extend(["--cache".to_owned(), name(self.cache.to_possible_value())]);
        all.extend(self.tiers.then(|| "--tiers".to_owned()));
        all.extend(["--target".to_owned(), self.absolute_target(), "--compress".to_owned(), self.compress.clone()]);
        all.extend(self.fold.iter().flat_map(|pipes| ["--fold".to_owned(), pipes.clone()]));
        all.extend(self.hot.iter().flat_map(|(table, entries)| ["--hot".to_owned(), format!("{table}={entries}")]));
        all.extend(self.absent.iter().flat_map(|table| ["--absent".to_owned(), table.clone()]));
        all
    }
}

/// The configuration of a node of which nothing was said.
pub fn usual_configuration() -> Result<ConfigFile, Failure> {
    let refused = |mistakes| Failure::Bug(format!("no configuration is refused: {mistakes:?}"));
    config::check("", wings()).map(|config| config.file).map_err(refused)
}

/// The configuration as a node takes it.
pub fn checked(file: &ConfigFile) -> Result<config::Config, Failure> {
    let text = toml::to_string(file).map_err(|error| Failure::Bug(error.to_string()))?;
    config::check(&text, wings()).map_err(|mistakes| {
        let messages: Vec<String> = mistakes.into_iter().map(|mistake| mistake.message).collect();
        Failure::Usage(messages.join("\n"))
    })
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
