//! Command line options that select an engine.

use super::failure::CommandError;
use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};
use entries::{StateUpdate, UpdateKind, WriteBatch};
use interp::Config;
use ir::{Pipeline, TableId};
use node::config::{self, CacheKind, ConfigFile, EngineSetting, KernelHook, TiersSetting};
use node::engine::{ChipSizing, EngineControl};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use terraced::wings;

/// Options `--engine`, `--cache`, `--tiers` and those of the chip, as in a node's configuration.
#[derive(Clone, Debug, Args)]
pub struct EngineArgs {
    /// Engine that runs the program.
    #[arg(long, value_name = "ENGINE", value_enum, default_value_t)]
    engine: EngineSetting,
    /// Flow cache before the engine.
    #[arg(long, value_name = "KIND", value_enum, default_value_t)]
    cache: CacheKind,
    /// Hook of `--cache xdp` in the kernel.
    #[arg(long, value_name = "HOOK", value_enum, default_value_t)]
    hook: KernelHook,
    /// Partition the program into tiers: the upper half runs on an emulated switch, the lower half
    /// behind a flow cache (`adaptive` unless --cache is given).
    #[arg(long)]
    tiers: bool,
    /// With `--engine asic` or `--tiers`: the chip, either built in (tofino1, tofino2, dpu8) or a
    /// target file.
    #[arg(long, value_name = "NAME|FILE.toml", default_value = "tofino1")]
    target: String,
    /// Number of pipes to fold into one longer pipe. Default: the smallest of 1, 2 and 4 with which
    /// the program fits.
    #[arg(long, value_name = "PIPES", value_parser = ["1", "2", "4"])]
    fold: Option<String>,
    /// Table compression for the chip, as in `terrace plan --compress`.
    #[arg(long, value_name = "auto|none|STEPS", default_value = "none")]
    compress: String,
    /// With `--tiers`: place only this number of a table's entries on the switch, those with the
    /// most hits; of a table to which packets add entries, those in use.
    #[arg(long, value_name = "TABLE=ENTRIES", value_parser = parse_hot_table, requires = "tiers")]
    hot: Vec<(String, u64)>,
    /// With `--tiers`: a table that is not placed on the switch.
    #[arg(long, value_name = "TABLE", requires = "tiers")]
    absent: Vec<String>,
}

/// Parses a table name and its number of hot entries.
fn parse_hot_table(text: &str) -> Result<(String, u64), String> {
    let parts = text.rsplit_once('=').and_then(|(table, entries)| Some((table.to_owned(), entries.parse().ok()?)));
    parts.ok_or_else(|| "give a table and a number of entries, as in vm_nc_v4=1000".to_owned())
}

impl EngineArgs {
    /// Loads an engine for a program. A chip gets capacity for `entries`, which the caller writes
    /// later.
    ///
    /// # Errors
    /// If the chip is unknown, or the program does not fit. The error gives the reason and the
    /// closest placement.
    pub fn load(
        &self,
        pipeline: &Arc<Pipeline>,
        config: &Config,
        entries: &WriteBatch,
    ) -> Result<Box<dyn EngineControl>, CommandError> {
        let mut file = usual_configuration()?;
        self.configure(&mut file);
        let factory = check_configuration(&file)?.engine;
        let on_chip = factory.with_chip_sizing(&chip_capacity(pipeline, entries));
        let takes_everything = on_chip.is_none() && factory.tiers().is_none();
        on_chip.unwrap_or(factory).load(pipeline, config).map_err(|refusal| match takes_everything {
            true => CommandError::Bug(refusal.message),
            false => CommandError::Refused(refusal.message),
        })
    }

    /// Applies the options to a node's configuration.
    pub fn configure(&self, file: &mut ConfigFile) {
        (file.engine, file.cache.kind, file.cache.hook) = (self.engine, self.cache, self.hook);
        file.switch.target = self.absolute_target();
        file.switch.fold = self.fold.as_ref().and_then(|pipes| pipes.parse().ok());
        file.switch.compress.clone_from(&self.compress);
        file.tiers = self.tiers.then(|| TiersSetting {
            hot: self.hot.iter().cloned().collect(),
            absent: self.absent.clone(),
            ..TiersSetting::default()
        });
    }

    /// Returns the chip's name, or the absolute path of its target file, so that it is valid in any
    /// directory.
    fn absolute_target(&self) -> String {
        match Path::new(&self.target).is_file() {
            true => std::path::absolute(&self.target)
                .map_or_else(|_| self.target.clone(), |path| path.display().to_string()),
            // A built-in chip, or an unknown name that is refused later.
            false => self.target.clone(),
        }
    }

    /// Returns the options as arguments for another `terrace` process, which may run in any
    /// directory.
    pub fn arguments(&self) -> Vec<String> {
        let name = |value: Option<PossibleValue>| value.map(|value| value.get_name().to_owned()).unwrap_or_default();
        let mut all = vec!["--engine".to_owned(), name(self.engine.to_possible_value())];
        all.extend(["--cache".to_owned(), name(self.cache.to_possible_value())]);
        all.extend(["--hook".to_owned(), name(self.hook.to_possible_value())]);
        all.extend(self.tiers.then(|| "--tiers".to_owned()));
        all.extend(["--target".to_owned(), self.absolute_target(), "--compress".to_owned(), self.compress.clone()]);
        all.extend(self.fold.iter().flat_map(|pipes| ["--fold".to_owned(), pipes.clone()]));
        all.extend(self.hot.iter().flat_map(|(table, entries)| ["--hot".to_owned(), format!("{table}={entries}")]));
        all.extend(self.absent.iter().flat_map(|table| ["--absent".to_owned(), table.clone()]));
        all
    }
}

/// Returns the default configuration of a node.
pub fn usual_configuration() -> Result<ConfigFile, CommandError> {
    let refused = |mistakes| CommandError::Bug(format!("no configuration is refused: {mistakes:?}"));
    config::check("", wings()).map(|config| config.file).map_err(refused)
}

/// Checks the configuration as a node does.
pub fn check_configuration(file: &ConfigFile) -> Result<config::CheckedConfig, CommandError> {
    let text = toml::to_string(file).map_err(|error| CommandError::Bug(error.to_string()))?;
    config::check(&text, wings()).map_err(|mistakes| {
        let messages: Vec<String> = mistakes.into_iter().map(|mistake| mistake.message).collect();
        CommandError::Usage(messages.join("\n"))
    })
}

/// Minimum capacity of each table on a chip, in entries, unless the program gives a smaller size.
/// Also the number of elements of each counter, meter and register, because programs declare these
/// for all possible indices, which no chip can hold.
const LEAST_ROOM: u64 = 512;

/// Returns the capacity of each table: twice its initial entries, at least [`LEAST_ROOM`], at most
/// the size that the program declares.
fn chip_capacity(pipeline: &Pipeline, entries: &WriteBatch) -> ChipSizing {
    let mut count: BTreeMap<TableId, u64> = BTreeMap::new();
    for update in &entries.updates {
        match update {
            StateUpdate::Entry(UpdateKind::Insert, entry) => *count.entry(entry.table).or_default() += 1,
            StateUpdate::Packed(UpdateKind::Insert, entry) => *count.entry(entry.table).or_default() += 1,
            _ => {}
        }
    }
    let room = |(id, table): (TableId, &ir::Table)| {
        let own = table.entries.len() as u64;
        let wanted = (2 * count.get(&id).copied().unwrap_or(0)).max(LEAST_ROOM).max(own);
        (table.preamble.name.clone(), table.size.map_or(wanted, |size| wanted.min(size.max(1))))
    };
    ChipSizing { sizing: None, tables: pipeline.tables.iter().map(room).collect(), others: LEAST_ROOM }
}
