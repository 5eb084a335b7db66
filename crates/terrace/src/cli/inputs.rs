//! What a command runs: a program with the entries of a region file or of an entries file.

use super::failure::Failure;
use super::program_args::SourceArgs;
use super::ui::Ui;
use crate::program::DEFAULT_PROGRAM;
use clap::Args;
use entries::{State, Update, WriteBatch};
use ir::{Pipeline, TableId};
use region::{Entries, Numbers, Region};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The longest entries file that is read, in bytes.
const MAX_ENTRIES_FILE: u64 = 1 << 30;

/// The program, and where its entries come from.
#[derive(Clone, Debug, Args)]
pub struct InputArgs {
    /// The program; the gateway that terrace brings along unless given.
    #[arg(long, value_name = "FILE.p4", default_value = DEFAULT_PROGRAM, hide_default_value = true)]
    program: PathBuf,
    /// Entries from a region file (for the gateway program).
    #[arg(long, value_name = "FILE.yaml")]
    pub region: Option<PathBuf>,
    /// Entries from a text file, one a line: `table: key=value -> action(parameter=value) priority=1`; a default action: `table: default -> action()`.
    #[arg(long, value_name = "FILE", conflicts_with = "region")]
    pub entries: Option<PathBuf>,
    #[command(flatten)]
    sources: SourceArgs,
}

/// A region with its entries for a program.
pub struct LoadedRegion {
    /// The checked region.
    pub region: Region,
    /// Its entries.
    pub entries: Entries,
}

/// What [`InputArgs::load`] gives.
pub struct Inputs {
    /// The program.
    pub pipeline: Arc<Pipeline>,
    /// The region, if there is one.
    pub region: Option<Region>,
    /// The writes that install all entries.
    pub batch: WriteBatch,
}

impl InputArgs {
    /// Compiles the program and reads the entries.
    pub fn load(&self, ui: Ui) -> Result<Inputs, Failure> {
        let pipeline = self.sources.pipeline(&self.program, ui)?;
        let mut inputs = Inputs { pipeline, region: None, batch: WriteBatch::new() };
        if let Some(path) = &self.region {
            let loaded = load_region(path, &inputs.pipeline, &mut Numbers::default(), ui)?;
            inputs.batch = region::diff(Entries::default(), loaded.entries);
            inputs.region = Some(loaded.region);
        }
        if let Some(path) = &self.entries {
            inputs.batch = read_entries(path, &inputs.pipeline)?;
        }
        Ok(inputs)
    }
}

/// Reads and checks a region file and makes its entries.
pub fn load_region(path: &Path, pipeline: &Pipeline, numbers: &mut Numbers, ui: Ui) -> Result<LoadedRegion, Failure> {
    let progress = ui.progress(format!("reading {}", path.display()));
    let region = region::load(path).map_err(Failure::refused)?;
    let entries = region::entries(&region, &path.display().to_string(), pipeline, numbers).map_err(Failure::refused)?;
    drop(progress);
    Ok(LoadedRegion { region, entries })
}

/// Default actions of an entries file.
struct Defaults {
    /// Nothing is written to it.
    state: State,
    /// Where each was set.
    places: BTreeMap<TableId, String>,
}

impl Defaults {
    fn new(pipeline: &Pipeline) -> Result<Defaults, Failure> {
        let state = State::new(Arc::new(pipeline.clone())).map_err(|error| Failure::Refused(error.to_string()))?;
        Ok(Defaults { state, places: BTreeMap::new() })
    }

    /// Whether a default action can be set, for the first time in the file.
    fn check(&mut self, update: &Update, place: &str) -> Result<(), String> {
        let Update::DefaultAction(table, _) = update else { return Ok(()) };
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

/// Reads entries and default actions, one a line; `#` starts a comment. All lines that are wrong are named.
fn read_entries(path: &Path, pipeline: &Pipeline) -> Result<WriteBatch, Failure> {
    let refuse =
        |error: std::io::Error| Failure::Refused(format!("cannot read {}: {error}; check the path", path.display()));
    if std::fs::metadata(path).map_err(refuse)?.len() > MAX_ENTRIES_FILE {
        return Err(Failure::Refused(format!("{} is longer than {MAX_ENTRIES_FILE} bytes; split it", path.display())));
    }
    let text = std::fs::read_to_string(path).map_err(refuse)?;
    let mut batch = WriteBatch::new();
    let mut defaults = Defaults::new(pipeline)?;
    let mut wrong = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let place = format!("{}:{}", path.display(), index + 1);
        match entries::parse_write(pipeline, line) {
            Ok(Update::Entry(kind, entry)) => drop(batch.push(Update::Entry(kind, entry.with_provenance(place)))),
            Ok(default) => match defaults.check(&default, &place) {
                Ok(()) => drop(batch.push(default)),
                Err(error) => wrong.push(format!("{place}: {error}")),
            },
            Err(error) => wrong.push(format!("{place}: {error}")),
        }
    }
    if wrong.is_empty() { Ok(batch) } else { Err(Failure::Refused(wrong.join("\n"))) }
}
