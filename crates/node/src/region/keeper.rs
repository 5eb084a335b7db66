//! [`RegionKeeper`]: the region in force, and how another version of it gets there.

use super::program::forwarding;
use super::uplinks::{self, OpenPorts};
use super::{Applied, Difference, RegionStatus};
use crate::Node;
use ir::{Pipeline, TableId};
use p4runtime::{Code, Device, Keep, Refusal};
use parking_lot::{Mutex, RwLock};
use region::{Api, Changes, EntryKey, Numbers, Region};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;
use tables::{Entry, State, Update, UpdateKind};
use thiserror::Error;

/// Changes that a difference shows.
const MAX_LINES: usize = 1000;
/// Entries of which it is remembered where they come from.
const MAX_KNOWN: usize = 4096;

/// A region file is not applied; tables are as they were.
#[derive(Debug, Error)]
pub enum RegionError {
    /// The node was not started with a region file.
    #[error(
        "this node serves no region; start it with `region` in its configuration, or with `terrace gateway run --region`"
    )]
    None,
    /// Something in the file is wrong.
    #[error(transparent)]
    File(#[from] region::LoadError),
    /// The program is not the gateway.
    #[error(transparent)]
    Program(#[from] region::NotAGateway),
    /// The program, or its entries, are refused.
    #[error("{}", _0.message)]
    Refused(Refusal),
}

impl From<Refusal> for RegionError {
    fn from(refusal: Refusal) -> RegionError {
        RegionError::Refused(refusal)
    }
}

/// A region whose entries are in the tables.
struct Installed {
    file: PathBuf,
    region: Region,
    api: Api,
    numbers: Numbers,
    /// The program's, without entries: it knows how keys are laid out.
    layouts: State,
    /// Where entries come from, as far as it was asked for.
    known: Mutex<HashMap<(TableId, Vec<u64>, i32), Option<String>>>,
}

/// The region that a node keeps its tables to.
#[derive(Default)]
pub(crate) struct RegionKeeper {
    /// The file that is read when no other is named. Locked while a file is applied: one after the other.
    file: Mutex<Option<PathBuf>>,
    installed: RwLock<Option<Arc<Installed>>>,
    status: Mutex<RegionStatus>,
}

impl RegionKeeper {
    fn installed(&self) -> Option<Arc<Installed>> {
        self.installed.read().clone()
    }

    /// Whether others may change tables and program: P4Runtime's controllers, that is.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION`: a region file decides what is in them.
    pub(crate) fn allow_others(&self) -> Result<(), Refusal> {
        match &*self.file.lock() {
            None => Ok(()),
            Some(file) => Err(Refusal::new(
                Code::FailedPrecondition,
                format!(
                    "the tables of this node are those of {}; change that file and use `terrace region apply`",
                    file.display()
                ),
            )),
        }
    }

    /// Where an entry of the tables comes from.
    pub(crate) fn source(&self, table: TableId, entry: &Entry) -> Option<String> {
        let installed = self.installed()?;
        let Installed { file, region, api, numbers, layouts, known } = &*installed;
        let key = (table, entry.key().to_vec(), entry.priority());
        if let Some(known) = known.lock().get(&key) {
            return known.clone();
        }
        let name = file.display().to_string();
        let wanted = EntryKey { table, key: entry.key(), priority: entry.priority() };
        let found = region::source_of(layouts, (region, &name), api, numbers, wanted);
        let mut known = known.lock();
        if known.len() >= MAX_KNOWN {
            known.clear();
        }
        known.insert(key, found.clone());
        found
    }

    /// The VPC of that number, for counters that are indexed by VPC.
    pub(crate) fn vpc(&self, number: u64) -> Option<String> {
        let installed = self.installed()?;
        let named = installed.numbers.vpcs.iter().find(|(_, of)| u64::from(**of) == number);
        named.map(|(name, _)| name.clone())
    }
}

/// A version of the region, not yet in force.
struct Candidate {
    file: PathBuf,
    region: Region,
    api: Api,
    numbers: Numbers,
    changes: Changes,
    warnings: Vec<String>,
}

impl Candidate {
    fn summary(&self, began: Instant) -> Applied {
        let Changes { inserted, modified, deleted, others, .. } = self.changes;
        let ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let (region, warnings) = (self.file.clone(), self.warnings.clone());
        Applied { region, inserted, modified, deleted, others, ms, warnings }
    }
}

impl Node {
    /// Runs the gateway with the entries of a region file, which is in force from now on. `program`:
    /// another gateway program than the one that a node brings along, in the text form of its pipeline.
    /// If the node has that program already, from its store or from the process before, its tables
    /// stay as they are but for the difference.
    ///
    /// # Errors
    /// The file is wrong, or the program is refused. The node then runs what it ran before.
    pub fn serve_region(&self, file: &Path, program: Option<Vec<u8>>) -> Result<Applied, RegionError> {
        let config = forwarding(program.unwrap_or_else(|| super::gateway().as_bytes().to_vec()))?;
        *self.region.file.lock() = Some(file.to_owned());
        if self.running().is_none_or(|running| running.device_config != config.device_config) {
            // What is wrong with the file is said before the program changes.
            region::load(file)?;
            self.commit_own(&config, Keep::WhatFits)?;
        }
        self.apply_region(None)
    }

    /// Reads the region file again, or another one from now on, and writes what changed.
    ///
    /// # Errors
    /// The file is wrong, or its entries are refused. Tables are as before.
    pub fn apply_region(&self, file: Option<&Path>) -> Result<Applied, RegionError> {
        let began = Instant::now();
        let mut in_force = self.region.file.lock();
        let file = file.map(Path::to_owned).or_else(|| in_force.clone()).ok_or(RegionError::None)?;
        let outcome = self.candidate(&file).and_then(|candidate| self.install(candidate, began));
        let mut status = self.region.status.lock();
        match &outcome {
            Ok(_) => {
                *in_force = Some(file);
                status.refused = None;
            }
            Err(error) => status.refused = Some(error.to_string()),
        }
        outcome
    }

    /// What [`Node::apply_region`] would change.
    ///
    /// # Errors
    /// As there.
    pub fn diff_region(&self, file: Option<&Path>) -> Result<Difference, RegionError> {
        let began = Instant::now();
        let in_force = self.region.file.lock();
        let file = file.map(Path::to_owned).or_else(|| in_force.clone()).ok_or(RegionError::None)?;
        let candidate = self.candidate(&file)?;
        let updates = &candidate.changes.batch.updates;
        let pipeline = self.running().map(|running| running.pipeline).ok_or(RegionError::None)?;
        let lines = updates.iter().take(MAX_LINES).filter_map(|update| line(&pipeline, update)).collect();
        let more = updates.len().saturating_sub(MAX_LINES);
        Ok(Difference { summary: candidate.summary(began), lines, more })
    }

    /// The region that is in force.
    ///
    /// # Errors
    /// There is none.
    pub fn region_status(&self) -> Result<RegionStatus, RegionError> {
        let status = self.region.status.lock().clone();
        let installed = self.region.installed();
        let Some(installed) = installed else {
            // It serves one that was refused so far.
            return if status.refused.is_some() { Ok(status) } else { Err(RegionError::None) };
        };
        let state = self.state().ok_or(RegionError::None)?;
        let entries = state.pipeline().tables.keys().map(|table| state.entry_count(table)).sum();
        let region = &installed.region.file;
        Ok(RegionStatus {
            file: installed.file.clone(),
            region: region.region.value.to_string(),
            vpcs: region.vpcs.len(),
            vms: region.vms.len(),
            servers: region.servers.len(),
            entries,
            ..status
        })
    }

    /// Reads a file and compares it with the tables.
    fn candidate(&self, file: &Path) -> Result<Candidate, RegionError> {
        let state = self.state().ok_or(RegionError::None)?;
        let region = region::load(file)?;
        let api = Api::new(state.pipeline())?;
        let mut numbers = self.region.installed().map_or_else(|| self.kept_numbers(), |there| there.numbers.clone());
        let fresh = numbers.assign(&region);
        let changes = region::changes(&state, &region, &api, &numbers, &fresh)
            .map_err(|error| Refusal::invalid(error.to_string()))?;
        let warnings = uplinks::warnings(&region, &file.display().to_string(), &self.open_ports());
        Ok(Candidate { file: file.to_owned(), region, api, numbers, changes, warnings })
    }

    /// Writes the changes; the version is in force then.
    fn install(&self, mut candidate: Candidate, began: Instant) -> Result<Applied, RegionError> {
        let batch = std::mem::take(&mut candidate.changes.batch);
        // Numbers first: should the process end in between, the next one finds what entries differ.
        self.keep_numbers(&candidate.numbers)?;
        // No write, no new version of the tables: caches stay as they are.
        if !batch.updates.is_empty() {
            let refused = |error: tables::WriteError| Refusal::invalid(error.error.to_string());
            self.write_own(vec![batch])?.into_iter().try_for_each(|outcome| outcome.map_err(refused))?;
        }
        let applied = candidate.summary(began);
        let pipeline = self.running().map(|running| running.pipeline).ok_or(RegionError::None)?;
        let layouts = State::new(pipeline).map_err(|error| Refusal::invalid(error.to_string()))?;
        let Candidate { file, region, api, numbers, warnings, .. } = candidate;
        let installed = Installed { file, region, api, numbers, layouts, known: Mutex::default() };
        *self.region.installed.write() = Some(Arc::new(installed));
        let mut status = self.region.status.lock();
        status.warnings = warnings;
        status.applications += 1;
        Ok(applied)
    }

    fn open_ports(&self) -> OpenPorts {
        self.plane.open_ports()
    }
}

/// A change as a person reads it.
fn line(pipeline: &Pipeline, update: &Update) -> Option<String> {
    match update {
        Update::Packed(kind, entry) => {
            let (sign, entry) = match kind {
                UpdateKind::Insert => ('+', entry.to_table_entry(pipeline)?),
                UpdateKind::Modify => ('~', entry.to_table_entry(pipeline)?),
                UpdateKind::Delete => return Some(format!("- {}", tables::format_identity(pipeline, entry))),
            };
            Some(format!("{sign} {}", tables::format_entry(pipeline, &entry)))
        }
        Update::DefaultAction(table, Some(action)) => {
            let name = &pipeline.tables.get(*table)?.preamble.name;
            let entry = tables::TableEntry::new(*table, Vec::new(), action.clone());
            let text = tables::format_entry(pipeline, &entry);
            let action = text.rsplit_once("-> ").map_or(text.as_str(), |(_, action)| action);
            Some(format!("~ {name}: default -> {action}"))
        }
        _ => None,
    }
}
