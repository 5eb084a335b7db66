//! Inputs of a command: a program, with entries from a region file or an entries file.

use super::failure::CommandError;
use super::program_args::SourceArgs;
use super::ui::OutputSettings;
use crate::program::DEFAULT_PROGRAM;
use clap::Args;
use entries::{ControlState, StateUpdate, WriteBatch};
use ir::{Pipeline, TableId};
use region::{GatewayEntries, IdAssignments, ResolvedRegion};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Maximum size of an entries file, in bytes.
const MAX_ENTRIES_FILE: u64 = 1 << 30;

/// Options for the program and the source of its entries.
#[derive(Clone, Debug, Args)]
pub struct InputArgs {
    /// Program to use. Default: the built-in gateway.
    #[arg(long, value_name = "FILE.p4", default_value = DEFAULT_PROGRAM, hide_default_value = true)]
    program: PathBuf,
    /// Region file to take entries from (for the gateway program).
    #[arg(long, value_name = "FILE.yaml")]
    pub region: Option<PathBuf>,
    /// Text file to take entries from, one per line: `table: key=value -> action(parameter=value)
    /// priority=1`. A default action is written `table: default -> action()`.
    #[arg(long, value_name = "FILE", conflicts_with = "region")]
    pub entries: Option<PathBuf>,
    #[command(flatten)]
    sources: SourceArgs,
}

/// A region with its entries for a program.
pub struct LoadedRegion {
    /// The checked region.
    pub region: ResolvedRegion,
    /// Entries of the region.
    pub entries: GatewayEntries,
}

/// Result of [`InputArgs::load`].
pub struct ProgramInputs {
    /// The compiled program.
    pub pipeline: Arc<Pipeline>,
    /// The region, if one was given.
    pub region: Option<ResolvedRegion>,
    /// Writes that install all entries.
    pub batch: WriteBatch,
}

impl InputArgs {
    /// Compiles the program and reads the entries.
    pub fn load(&self, ui: OutputSettings) -> Result<ProgramInputs, CommandError> {
        let pipeline = self.sources.pipeline(&self.program, ui)?;
        let mut inputs = ProgramInputs { pipeline, region: None, batch: WriteBatch::new() };
        if let Some(path) = &self.region {
            let loaded = load_region(path, &inputs.pipeline, &mut IdAssignments::default(), ui)?;
            inputs.batch = region::diff(GatewayEntries::default(), loaded.entries);
            inputs.region = Some(loaded.region);
        }
        if let Some(path) = &self.entries {
            inputs.batch = read_entries(path, &inputs.pipeline)?;
        }
        Ok(inputs)
    }
}

/// Reads and checks a region file and computes its entries.
pub fn load_region(
    path: &Path,
    pipeline: &Pipeline,
    numbers: &mut IdAssignments,
    ui: OutputSettings,
) -> Result<LoadedRegion, CommandError> {
    let progress = ui.progress(format!("reading {}", path.display()));
    let region = region::load(path).map_err(CommandError::refused)?;
    let entries =
        region::entries(&region, &path.display().to_string(), pipeline, numbers).map_err(CommandError::refused)?;
    drop(progress);
    Ok(LoadedRegion { region, entries })
}

/// Default actions of an entries file.
struct DefaultActions {
    /// Empty control state, used only to check updates.
    state: ControlState,
    /// Source location of each table's default action.
    places: BTreeMap<TableId, String>,
}

impl DefaultActions {
    fn new(pipeline: &Pipeline) -> Result<DefaultActions, CommandError> {
        let state =
            ControlState::new(Arc::new(pipeline.clone())).map_err(|error| CommandError::Refused(error.to_string()))?;
        Ok(DefaultActions { state, places: BTreeMap::new() })
    }

    /// Checks that a default action is valid and is the table's first in the file.
    fn check(&mut self, update: &StateUpdate, place: &str) -> Result<(), String> {
        let StateUpdate::DefaultAction(table, _) = update else { return Ok(()) };
        let batch = std::iter::once(update.clone()).collect();
        self.state.check(&batch).map_err(|refused| refused.error.to_string())?;
        match self.places.insert(*table, place.to_owned()) {
            None => Ok(()),
            Some(first) => {
                let name = &self.state.pipeline().tables[*table].preamble.name;
                Err(format!("the default action of {name} was set already, at {first}; keep one of them"))
            }
        }
    }
}

/// Reads entries and default actions, one per line; `#` starts a comment. The error lists all
/// invalid lines.
fn read_entries(path: &Path, pipeline: &Pipeline) -> Result<WriteBatch, CommandError> {
    let refuse = |error: std::io::Error| {
        CommandError::Refused(format!("cannot read {}: {error}; check the path", path.display()))
    };
    if std::fs::metadata(path).map_err(refuse)?.len() > MAX_ENTRIES_FILE {
        return Err(CommandError::Refused(format!(
            "{} is longer than {MAX_ENTRIES_FILE} bytes; split it",
            path.display()
        )));
    }
    let text = std::fs::read_to_string(path).map_err(refuse)?;
    let mut batch = WriteBatch::new();
    let mut defaults = DefaultActions::new(pipeline)?;
    let mut problems = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let place = format!("{}:{}", path.display(), index + 1);
        match entries::parse_write(pipeline, line) {
            Ok(StateUpdate::Entry(kind, entry)) => {
                batch.push(StateUpdate::Entry(kind, entry.with_provenance(place)));
            }
            Ok(default) => match defaults.check(&default, &place) {
                Ok(()) => drop(batch.push(default)),
                Err(error) => problems.push(format!("{place}: {error}")),
            },
            Err(error) => problems.push(format!("{place}: {error}")),
        }
    }
    if problems.is_empty() { Ok(batch) } else { Err(CommandError::Refused(problems.join("\n"))) }
}
