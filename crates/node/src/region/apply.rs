//! Applies versions of a region file to the tables.

use super::keeper::{InstalledRegion, RegionError};
use super::program::config_from_text;
use super::{RegionChanges, RegionDifference, RegionStatus, uplinks};
use crate::Node;
use entries::{ControlState, StateUpdate, UpdateKind};
use ir::Pipeline;
use p4runtime::{Device, P4RuntimeError, PipelineConfig, ReconcileMode};
use parking_lot::Mutex;
use region::{Changes, Document, Edit, GatewayApi, IdAssignments, ResolvedRegion};
use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// Maximum number of changes that a difference lists.
const MAX_LINES: usize = 1000;
/// A version of the region that is not in force yet.
enum RegionVersion {
    /// An edit of some VPCs of the version in force.
    Edit(Edit),
    /// A complete document.
    Whole(Box<Document>),
}

impl Node {
    /// Runs the gateway with the entries of a region file, which is in force from now on.
    /// `program`: another gateway program than the built-in one, in the text form of its pipeline.
    /// If the node already runs that program, from its store or from its predecessor, only the
    /// difference is written to its tables.
    ///
    /// # Errors
    /// The file is invalid, or the program is refused. The node then continues with its earlier
    /// program.
    pub fn serve_region(&self, file: &Path, program: Option<Vec<u8>>) -> Result<RegionChanges, RegionError> {
        let config = config_from_text(program.unwrap_or_else(|| super::gateway().as_bytes().to_vec()))?;
        *self.region.program.lock() = Some(config);
        *self.region.file.lock() = Some(file.to_owned());
        self.apply_region(None)
    }

    /// Reads the region file again, or changes to another file, and writes the changes.
    ///
    /// # Errors
    /// The file is invalid, or its entries are refused. The tables are unchanged.
    pub fn apply_region(&self, file: Option<&Path>) -> Result<RegionChanges, RegionError> {
        let began = Instant::now();
        let mut in_force = self.region.file.lock();
        let file = file.map(Path::to_owned).or_else(|| in_force.clone()).ok_or(RegionError::None)?;
        let outcome = self.read_region(&file).and_then(|version| self.install_version(&file, version, began));
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

    /// Returns the changes that [`Node::apply_region`] would make.
    ///
    /// # Errors
    /// Returns the errors of [`Node::apply_region`].
    pub fn diff_region(&self, file: Option<&Path>) -> Result<RegionDifference, RegionError> {
        let began = Instant::now();
        let in_force = self.region.file.lock();
        let file = file.map(Path::to_owned).or_else(|| in_force.clone()).ok_or(RegionError::None)?;
        let program = self.region_program()?.pipeline;
        let (changes, warnings) = match self.read_region(&file)? {
            RegionVersion::Edit(edit) => {
                let mut installed = self.region.installed.write();
                let installed = installed.as_mut().ok_or(RegionError::None)?;
                let (back, numbers, changes) = installed.apply_edit(edit);
                let warnings = self.uplink_warnings(&installed.document.region, &file);
                installed.revert_edit(back, numbers);
                (changes, warnings)
            }
            RegionVersion::Whole(document) => {
                let running = self.state().filter(|state| state.pipeline() == &program);
                let state = running.map_or_else(|| state_without_entries(program.clone()), Ok)?;
                (self.compare_with_tables(&state, &document)?.2, self.uplink_warnings(&document.region, &file))
            }
        };
        let updates = &changes.batch.updates;
        let lines = updates.iter().take(MAX_LINES).filter_map(|update| format_change(&program, update)).collect();
        let more = updates.len().saturating_sub(MAX_LINES);
        Ok(RegionDifference { summary: summarize_changes(&file, &changes, warnings, began), lines, more })
    }

    /// Returns the status of the region.
    ///
    /// # Errors
    /// The node serves no region.
    pub fn region_status(&self) -> Result<RegionStatus, RegionError> {
        let status = self.region.status.lock().clone();
        let installed = self.region.installed.read();
        let Some(installed) = installed.as_ref() else {
            // The node serves a region whose file was refused so far.
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

    /// Returns the program of the region.
    fn region_program(&self) -> Result<PipelineConfig, RegionError> {
        self.region.program.lock().clone().ok_or(RegionError::None)
    }

    /// Reads a file, as an edit of the version in force if possible.
    fn read_region(&self, file: &Path) -> Result<RegionVersion, RegionError> {
        {
            let installed = self.region.installed.read();
            let is_known =
                |installed: &&InstalledRegion| installed.file == file && !self.region.in_doubt.load(Ordering::Relaxed);
            if let Some(installed) = installed.as_ref().filter(is_known)
                && let Some(edit) = installed.document.edit_to_file(file)?
            {
                return Ok(RegionVersion::Edit(edit));
            }
        }
        let text = region::read(file)?;
        let document = Document::parse(&file.display().to_string(), text).map_err(region::RegionLoadError::from)?;
        Ok(RegionVersion::Whole(Box::new(document)))
    }

    /// Compares a version of the region with tables. Returns the numbers of its objects, and the
    /// necessary writes.
    fn compare_with_tables(
        &self,
        state: &ControlState,
        document: &Document,
    ) -> Result<(GatewayApi, IdAssignments, Changes), RegionError> {
        let kept = self.region.installed.read().as_ref().map(|installed| installed.numbers.clone());
        let api = GatewayApi::new(state.pipeline())?;
        let mut numbers = kept.unwrap_or_else(|| self.stored_region_numbers());
        (numbers.ports, numbers.path_mtus) = (self.region.ports.lock().clone(), self.path_mtus());
        if numbers.flow_secret == 0 {
            numbers.flow_secret = random_secret();
        }
        let fresh = numbers.assign(&document.region);
        let changes = region::changes(state, &document.region, &api, &numbers, &fresh)
            .map_err(|error| P4RuntimeError::invalid(error.to_string()))?;
        Ok((api, numbers, changes))
    }

    /// Writes the changes and puts the version in force.
    fn install_version(
        &self,
        file: &Path,
        version: RegionVersion,
        began: Instant,
    ) -> Result<RegionChanges, RegionError> {
        let changes = match version {
            RegionVersion::Edit(edit) => self.install_edit(edit)?,
            RegionVersion::Whole(document) => self.install_whole(file, *document)?,
        };
        // A link may have changed while the entries were written.
        self.reconcile_next_hops()?;
        let installed = self.region.installed.read();
        let region = installed.as_ref().map(|installed| &installed.document.region).ok_or(RegionError::None)?;
        let warnings = self.uplink_warnings(region, file);
        let mut status = self.region.status.lock();
        status.warnings.clone_from(&warnings);
        status.applications += 1;
        Ok(summarize_changes(file, &changes, warnings, began))
    }

    fn install_edit(&self, edit: Edit) -> Result<Changes, RegionError> {
        // Releases the lock before tables are written, because a thread that has locked the tables
        // can look up a VPC's name.
        let changed = self.region.installed.write().as_mut().map(|installed| {
            let (back, numbers, changes) = installed.apply_edit(edit);
            (back, numbers, changes, installed.numbers.clone())
        });
        let (back, before, mut changes, numbers) = changed.ok_or(RegionError::None)?;
        if let Err(error) = self.write_changes(&mut changes, &numbers) {
            if let Some(installed) = self.region.installed.write().as_mut() {
                installed.revert_edit(back, before);
            }
            return Err(error);
        }
        Ok(changes)
    }

    /// Also starts the region's program if it does not run yet. The caller has checked the file.
    fn install_whole(&self, file: &Path, document: Document) -> Result<Changes, RegionError> {
        let config = self.region_program()?;
        // Checks that the program is a gateway before it runs.
        GatewayApi::new(&config.pipeline)?;
        let runs_another = self.running().is_none_or(|running| running.device_config != config.device_config);
        // Opened before anything changes, because an interface can be refused.
        let host = self.prepare_host(&document.region.file)?;
        // Also rewrites the store after it has failed.
        if runs_another || self.has_store_fault() {
            self.commit_config(&config, ReconcileMode::ValidObjects)?;
        }
        let state = self.state().ok_or(RegionError::None)?;
        let (api, numbers, mut changes) = self.compare_with_tables(&state, &document)?;
        drop(state);
        self.write_changes(&mut changes, &numbers)?;
        self.commit_host(host, &document.region.file)?;
        let (layouts, known) = (state_without_entries(config.pipeline)?, Mutex::default());
        let nat_names = OnceLock::new();
        let installed = InstalledRegion { file: file.to_owned(), document, api, numbers, layouts, known, nat_names };
        *self.region.installed.write() = Some(installed);
        self.region.in_doubt.store(false, Ordering::Relaxed);
        Ok(changes)
    }

    /// Writes changes to the tables, and stores the numbers that they use.
    fn write_changes(&self, changes: &mut Changes, numbers: &IdAssignments) -> Result<(), RegionError> {
        let batch = std::mem::take(&mut changes.batch);
        // Stores the numbers first, so that the next process finds consistent numbers if this one
        // ends in between.
        self.save_region_numbers(numbers)?;
        let outcome = self.write_updates(batch);
        self.region.in_doubt.fetch_or(outcome.is_err(), Ordering::Relaxed);
        outcome?;
        Ok(())
    }

    fn uplink_warnings(&self, region: &ResolvedRegion, file: &Path) -> Vec<String> {
        uplinks::warnings(region, &file.display().to_string(), &self.plane.open_ports())
    }
}

/// Returns a secret for the hash of flows, other than 0. The standard library seeds its hash maps from
/// the system's random numbers.
fn random_secret() -> u32 {
    (RandomState::new().hash_one(0u8) as u32).max(1)
}

/// Returns the initial state of a program.
fn state_without_entries(pipeline: Arc<Pipeline>) -> Result<ControlState, P4RuntimeError> {
    ControlState::new(pipeline).map_err(|error| P4RuntimeError::invalid(error.to_string()))
}

fn summarize_changes(file: &Path, changes: &Changes, warnings: Vec<String>, began: Instant) -> RegionChanges {
    let Changes { inserted, modified, deleted, others, .. } = *changes;
    let ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    RegionChanges { region: file.to_owned(), inserted, modified, deleted, others, ms, warnings }
}

/// Formats a change as text.
fn format_change(pipeline: &Pipeline, update: &StateUpdate) -> Option<String> {
    match update {
        StateUpdate::Packed(kind, entry) => {
            let (sign, entry) = match kind {
                UpdateKind::Insert => ('+', entry.to_table_entry(pipeline)?),
                UpdateKind::Modify => ('~', entry.to_table_entry(pipeline)?),
                UpdateKind::Delete => return Some(format!("- {}", entries::format_identity(pipeline, entry))),
            };
            Some(format!("{sign} {}", entries::format_entry(pipeline, &entry)))
        }
        StateUpdate::DefaultAction(table, Some(action)) => {
            let name = &pipeline.tables.get(*table)?.preamble.name;
            let entry = entries::TableEntry::new(*table, Vec::new(), action.clone());
            let text = entries::format_entry(pipeline, &entry);
            let action = text.rsplit_once("-> ").map_or(text.as_str(), |(_, action)| action);
            Some(format!("~ {name}: default -> {action}"))
        }
        _ => None,
    }
}
