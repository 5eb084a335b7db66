//! How another version of a region gets into the tables.

use super::keeper::{Installed, RegionError};
use super::program::forwarding;
use super::{Applied, Difference, RegionStatus, uplinks};
use crate::Node;
use entries::{State, Update, UpdateKind};
use ir::Pipeline;
use p4runtime::{Device, Forwarding, Keep, Refusal};
use parking_lot::Mutex;
use region::{Api, Changes, Document, Edit, Numbers, Region};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Changes that a difference shows.
const MAX_LINES: usize = 1000;
/// Another version of the region, not yet in force.
enum Version {
    /// One that differs from the version in force in some VPCs.
    Edit(Edit),
    /// One that was read as a whole.
    Whole(Box<Document>),
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
        *self.region.program.lock() = Some(config);
        *self.region.file.lock() = Some(file.to_owned());
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
        let outcome = self.read_region(&file).and_then(|version| self.install(&file, version, began));
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
        let program = self.region_program()?.pipeline;
        let (changes, warnings) = match self.read_region(&file)? {
            Version::Edit(edit) => {
                let mut installed = self.region.installed.write();
                let installed = installed.as_mut().ok_or(RegionError::None)?;
                let (back, numbers, changes) = installed.change(edit);
                let warnings = self.uplink_warnings(&installed.document.region, &file);
                installed.change_back(back, numbers);
                (changes, warnings)
            }
            Version::Whole(document) => {
                let running = self.state().filter(|state| state.pipeline() == &program);
                let state = running.map_or_else(|| empty(program.clone()), Ok)?;
                (self.compare(&state, &document)?.2, self.uplink_warnings(&document.region, &file))
            }
        };
        let updates = &changes.batch.updates;
        let lines = updates.iter().take(MAX_LINES).filter_map(|update| line(&program, update)).collect();
        let more = updates.len().saturating_sub(MAX_LINES);
        Ok(Difference { summary: summary(&file, &changes, warnings, began), lines, more })
    }

    /// The region that is in force.
    ///
    /// # Errors
    /// There is none.
    pub fn region_status(&self) -> Result<RegionStatus, RegionError> {
        let status = self.region.status.lock().clone();
        let installed = self.region.installed.read();
        let Some(installed) = installed.as_ref() else {
            // It serves one that was refused so far.
            return if status.refused.is_some() { Ok(status) } else { Err(RegionError::None) };
        };
        let state = self.state().ok_or(RegionError::None)?;
        let entries = state.pipeline().tables.keys().map(|table| state.entry_count(table)).sum();
        let region = &installed.document.region.file;
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

    /// The program that the region is for.
    fn region_program(&self) -> Result<Forwarding, RegionError> {
        self.region.program.lock().clone().ok_or(RegionError::None)
    }

    /// Reads a file: what it changes of the version in force, or all of it.
    fn read_region(&self, file: &Path) -> Result<Version, RegionError> {
        {
            let installed = self.region.installed.read();
            let is_known =
                |installed: &&Installed| installed.file == file && !self.region.in_doubt.load(Ordering::Relaxed);
            if let Some(installed) = installed.as_ref().filter(is_known)
                && let Some(edit) = installed.document.edit_to_file(file)?
            {
                return Ok(Version::Edit(edit));
            }
        }
        let text = region::read(file)?;
        let document = Document::parse(&file.display().to_string(), text).map_err(region::LoadError::from)?;
        Ok(Version::Whole(Box::new(document)))
    }

    /// Compares a version of the region with tables; the numbers of its VPCs, and what has to be written.
    fn compare(&self, state: &State, document: &Document) -> Result<(Api, Numbers, Changes), RegionError> {
        let kept = self.region.installed.read().as_ref().map(|installed| installed.numbers.clone());
        let api = Api::new(state.pipeline())?;
        let mut numbers = kept.unwrap_or_else(|| self.kept_numbers());
        let fresh = numbers.assign(&document.region);
        let changes = region::changes(state, &document.region, &api, &numbers, &fresh)
            .map_err(|error| Refusal::invalid(error.to_string()))?;
        Ok((api, numbers, changes))
    }

    /// Writes what changes; the version is in force then.
    fn install(&self, file: &Path, version: Version, began: Instant) -> Result<Applied, RegionError> {
        let changes = match version {
            Version::Edit(edit) => self.install_edit(edit)?,
            Version::Whole(document) => self.install_whole(file, *document)?,
        };
        let installed = self.region.installed.read();
        let region = installed.as_ref().map(|installed| &installed.document.region).ok_or(RegionError::None)?;
        let warnings = self.uplink_warnings(region, file);
        let mut status = self.region.status.lock();
        status.warnings.clone_from(&warnings);
        status.applications += 1;
        Ok(summary(file, &changes, warnings, began))
    }

    fn install_edit(&self, edit: Edit) -> Result<Changes, RegionError> {
        // The lock is not held while tables are written: a thread that has the tables may ask for a VPC's name.
        let changed = self.region.installed.write().as_mut().map(|installed| {
            let (back, numbers, changes) = installed.change(edit);
            (back, numbers, changes, installed.numbers.clone())
        });
        let (back, before, mut changes, numbers) = changed.ok_or(RegionError::None)?;
        if let Err(error) = self.write_changes(&mut changes, &numbers) {
            if let Some(installed) = self.region.installed.write().as_mut() {
                installed.change_back(back, before);
            }
            return Err(error);
        }
        Ok(changes)
    }

    /// Has the region's program run, too, if it does not yet: what is wrong with the file was said before.
    fn install_whole(&self, file: &Path, document: Document) -> Result<Changes, RegionError> {
        let config = self.region_program()?;
        // What a region needs of a program is looked at before it runs.
        Api::new(&config.pipeline)?;
        let runs_another = self.running().is_none_or(|running| running.device_config != config.device_config);
        // After the store has failed, it is written anew with what is in the tables.
        if runs_another || self.is_stuck() {
            self.commit_own(&config, Keep::WhatFits)?;
        }
        let state = self.state().ok_or(RegionError::None)?;
        let (api, numbers, mut changes) = self.compare(&state, &document)?;
        drop(state);
        self.write_changes(&mut changes, &numbers)?;
        let (layouts, known) = (empty(config.pipeline)?, Mutex::default());
        let installed = Installed { file: file.to_owned(), document, api, numbers, layouts, known };
        *self.region.installed.write() = Some(installed);
        self.region.in_doubt.store(false, Ordering::Relaxed);
        Ok(changes)
    }

    /// Writes changes to the tables, and keeps the numbers that they were made with.
    fn write_changes(&self, changes: &mut Changes, numbers: &Numbers) -> Result<(), RegionError> {
        let batch = std::mem::take(&mut changes.batch);
        // Numbers first: should the process end in between, the next one finds what entries differ.
        self.keep_numbers(numbers)?;
        // No write, no new version of the tables: caches stay as they are.
        if batch.updates.is_empty() {
            return Ok(());
        }
        let refused = |error: entries::WriteError| Refusal::invalid(error.error.to_string());
        let outcome = self.write_own(vec![batch]);
        let outcome = outcome.and_then(|all| all.into_iter().try_for_each(|outcome| outcome.map_err(refused)));
        self.region.in_doubt.fetch_or(outcome.is_err(), Ordering::Relaxed);
        Ok(outcome?)
    }

    fn uplink_warnings(&self, region: &Region, file: &Path) -> Vec<String> {
        uplinks::warnings(region, &file.display().to_string(), &self.plane.open_ports())
    }
}

/// The tables of a program that holds no entries but its own.
fn empty(pipeline: Arc<Pipeline>) -> Result<State, Refusal> {
    State::new(pipeline).map_err(|error| Refusal::invalid(error.to_string()))
}

fn summary(file: &Path, changes: &Changes, warnings: Vec<String>, began: Instant) -> Applied {
    let Changes { inserted, modified, deleted, others, .. } = *changes;
    let ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    Applied { region: file.to_owned(), inserted, modified, deleted, others, ms, warnings }
}

/// A change as a person reads it.
fn line(pipeline: &Pipeline, update: &Update) -> Option<String> {
    match update {
        Update::Packed(kind, entry) => {
            let (sign, entry) = match kind {
                UpdateKind::Insert => ('+', entry.to_table_entry(pipeline)?),
                UpdateKind::Modify => ('~', entry.to_table_entry(pipeline)?),
                UpdateKind::Delete => return Some(format!("- {}", entries::format_identity(pipeline, entry))),
            };
            Some(format!("{sign} {}", entries::format_entry(pipeline, &entry)))
        }
        Update::DefaultAction(table, Some(action)) => {
            let name = &pipeline.tables.get(*table)?.preamble.name;
            let entry = entries::TableEntry::new(*table, Vec::new(), action.clone());
            let text = entries::format_entry(pipeline, &entry);
            let action = text.rsplit_once("-> ").map_or(text.as_str(), |(_, action)| action);
            Some(format!("~ {name}: default -> {action}"))
        }
        _ => None,
    }
}
