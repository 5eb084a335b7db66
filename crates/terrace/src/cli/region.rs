//! `terrace region`.

use super::failure::CommandError;
use super::inputs::load_region;
use super::program_args::SourceArgs;
use super::show::{NodeArgs, failed, unexpected};
use super::ui::{OutputSettings, print_line, style};
use crate::program::DEFAULT_PROGRAM;
use clap::{Args, Subcommand};
use node::admin::{ControlRequest, ControlResponse, ask};
use node::region::{RegionChanges, RegionDifference, RegionStatus};
use region::{IdAssignments, RegionLoadError};
use serde::Serialize;
use std::io::Write;
use std::path::PathBuf;

/// Check region files, print their entries, and apply them to a node.
#[derive(Debug, Args)]
pub struct RegionArgs {
    #[command(subcommand)]
    command: RegionCommand,
}

#[derive(Debug, Subcommand)]
enum RegionCommand {
    /// Check region files. All errors are printed, with line and fix. The exit code is 1 if there
    /// are any.
    Check(CheckArgs),
    /// Print the entries that a region file produces, each with its source line.
    Entries(EntriesArgs),
    /// Print the JSON Schema of region files, for editors.
    Schema,
    /// Make a node reload its region file, or switch to another one.
    ///
    /// The node compares the file with its tables, and writes the difference as one batch, so that
    /// each packet sees either the old or the new region. An invalid file changes nothing (exit
    /// code 3).
    Apply(FileArgs),
    /// Show the changes that applying the region file, or another one, would make.
    Diff(FileArgs),
    /// Show the region that a node serves, and the parts of it that do not fit the node's ports.
    Status(NodeArgs),
}

#[derive(Debug, Args)]
struct FileArgs {
    /// Region file. Default: the one in force.
    #[arg(value_name = "FILE.yaml")]
    file: Option<PathBuf>,
    #[command(flatten)]
    node: NodeArgs,
}

#[derive(Debug, Args)]
struct CheckArgs {
    /// Region files to check.
    #[arg(value_name = "FILE.yaml", required = true)]
    files: Vec<PathBuf>,
}

#[derive(Debug, Args)]
struct EntriesArgs {
    /// Region file.
    #[arg(value_name = "FILE.yaml")]
    file: PathBuf,
    /// Program to use. Default: the built-in gateway.
    #[arg(long, value_name = "FILE.p4", default_value = DEFAULT_PROGRAM, hide_default_value = true)]
    program: PathBuf,
    /// Print only entries of tables with TEXT in their name.
    #[arg(long, value_name = "TEXT")]
    table: Option<String>,
    #[command(flatten)]
    sources: SourceArgs,
}

#[derive(Serialize)]
struct CheckedRegion {
    file: String,
    accepted: bool,
    problems: Vec<region::Problem>,
    more: usize,
    vpcs: usize,
    vms: usize,
    servers: usize,
}

#[derive(Serialize)]
struct EntryJson {
    table: String,
    entry: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    provenance: Option<String>,
}

impl RegionArgs {
    pub(super) fn run(self, ui: OutputSettings) -> Result<(), CommandError> {
        match self.command {
            RegionCommand::Check(args) => args.run(ui),
            RegionCommand::Entries(args) => args.run(ui),
            RegionCommand::Apply(args) => args.apply(ui),
            RegionCommand::Diff(args) => args.diff(ui),
            RegionCommand::Status(node) => print_region_status(&node, ui),
            RegionCommand::Schema => {
                let schema = serde_json::to_string_pretty(&region::schema());
                print_line(&schema.map_err(|error| CommandError::Bug(error.to_string()))?)
            }
        }
    }
}

impl CheckArgs {
    /// Checks region files and prints the problems and sizes of each. Fails if one is not accepted.
    fn run(self, ui: OutputSettings) -> Result<(), CommandError> {
        let mut regions = Vec::new();
        for path in &self.files {
            let progress = ui.progress(format!("checking {}", path.display()));
            let loaded = region::load(path);
            drop(progress);
            let mut checked = CheckedRegion {
                file: path.display().to_string(),
                accepted: loaded.is_ok(),
                problems: Vec::new(),
                more: 0,
                vpcs: 0,
                vms: 0,
                servers: 0,
            };
            match loaded {
                Ok(region) => {
                    let file = &region.file;
                    (checked.vpcs, checked.vms, checked.servers) =
                        (file.vpcs.len(), file.vms.len(), file.servers.len());
                }
                Err(RegionLoadError::Wrong(problems)) => {
                    (checked.problems, checked.more) = (problems.problems, problems.more);
                }
                Err(error) => return Err(CommandError::refused(error)),
            }
            if !ui.json {
                print_line(&checked.text())?;
            }
            regions.push(checked);
        }
        if ui.json {
            ui.result(&regions, String::new)?;
        }
        if regions.iter().all(|checked| checked.accepted) { Ok(()) } else { Err(CommandError::Failed) }
    }
}

impl CheckedRegion {
    fn text(&self) -> String {
        if self.accepted {
            let (good, file) = (style::GOOD, &self.file);
            let counts = format!("{} VPCs, {} VMs, {} servers", self.vpcs, self.vms, self.servers);
            return format!("{file}: {good}accepted{good:#} ({counts})");
        }
        let bad = style::BAD;
        let mut text: String = self.problems.iter().map(|problem| format!("{problem}\n")).collect();
        if self.more > 0 {
            text += &format!("and {} more\n", self.more);
        }
        text + &format!("{}: {bad}refused{bad:#} ({} problems)", self.file, self.problems.len() + self.more)
    }
}

impl FileArgs {
    /// Returns the absolute path, because the node may run in another directory.
    fn absolute_path(&self) -> Result<Option<PathBuf>, CommandError> {
        let absolute = |path: &PathBuf| {
            let failed =
                |error| CommandError::Refused(format!("cannot find {}: {error}; check the path", path.display()));
            std::fs::canonicalize(path).map_err(failed)
        };
        self.file.as_ref().map(absolute).transpose()
    }

    fn apply(self, ui: OutputSettings) -> Result<(), CommandError> {
        let request = ControlRequest::RegionApply { file: self.absolute_path()? };
        let progress = ui.progress("applying");
        let answer = ask(&self.node.socket(), &request).map_err(failed)?;
        drop(progress);
        match answer {
            ControlResponse::RegionApplied(applied) => ui.result(&applied, || applied.to_string()),
            answer => Err(unexpected(&answer)),
        }
    }

    fn diff(self, ui: OutputSettings) -> Result<(), CommandError> {
        let request = ControlRequest::RegionDiff { file: self.absolute_path()? };
        let progress = ui.progress("comparing");
        let answer = ask(&self.node.socket(), &request).map_err(failed)?;
        drop(progress);
        match answer {
            ControlResponse::RegionDiffers(difference) => ui.result(&difference, || difference_text(&difference)),
            answer => Err(unexpected(&answer)),
        }
    }
}

fn difference_text(difference: &RegionDifference) -> String {
    let mut text: String = difference.lines.iter().map(|line| format!("{line}\n")).collect();
    if difference.more > 0 {
        text += &format!("and {} more\n", difference.more);
    }
    let RegionChanges { inserted, modified, deleted, .. } = difference.summary;
    text += &format!("{inserted} entries to add, {modified} to change, {deleted} to remove");
    difference.summary.warnings.iter().for_each(|warning| text += &format!("\nwarning: {warning}"));
    text
}

fn print_region_status(node: &NodeArgs, ui: OutputSettings) -> Result<(), CommandError> {
    match ask(&node.socket(), &ControlRequest::Region).map_err(failed)? {
        ControlResponse::Region(status) => ui.result(&status, || status_text(&status)),
        answer => Err(unexpected(&answer)),
    }
}

fn status_text(status: &RegionStatus) -> String {
    let RegionStatus { region, vpcs, vms, servers, entries, applications, .. } = status;
    let file = status.file.display();
    let mut text = format!("region {region} of {file}: {vpcs} VPCs, {vms} VMs, {servers} servers, {entries} entries\n");
    text += &format!("applied {applications} times since the node began");
    status.warnings.iter().for_each(|warning| text += &format!("\nwarning: {warning}"));
    if let Some(refused) = &status.refused {
        let bad = style::BAD;
        text += &format!("\n{bad}last change refused{bad:#}, an older region is in force: {refused}");
    }
    text
}

impl EntriesArgs {
    /// Prints the entries of a region, default actions first, each with the line of its origin.
    /// `--table` selects tables by a part of their name.
    fn run(self, ui: OutputSettings) -> Result<(), CommandError> {
        let pipeline = self.sources.pipeline(&self.program, ui)?;
        let loaded = load_region(&self.file, &pipeline, &mut IdAssignments::default(), ui)?;
        let is_selected = |name: &str| self.table.as_deref().is_none_or(|text| name.contains(text));
        let mut shown = Vec::new();
        for (table, action) in &loaded.entries.defaults {
            let name = &pipeline.tables[*table].preamble.name;
            if is_selected(name) {
                let entry = entries::TableEntry::new(*table, Vec::new(), action.clone());
                let text = entries::format_entry(&pipeline, &entry);
                let entry = format!("default {text}");
                shown.push(EntryJson { table: name.clone(), entry, provenance: None });
            }
        }
        for entry in &loaded.entries.entries {
            let name = &pipeline.tables[entry.table].preamble.name;
            if is_selected(name) {
                let provenance = entry.provenance.as_deref().map(str::to_owned);
                shown.push(EntryJson {
                    table: name.clone(),
                    entry: entries::format_entry(&pipeline, entry),
                    provenance,
                });
            }
        }
        if ui.json {
            return ui.result(&shown, String::new);
        }
        let dim = style::DIM;
        let mut out = anstream::stdout().lock();
        for row in &shown {
            let origin = row.provenance.as_ref().map_or(String::new(), |origin| format!("  {dim}# {origin}{dim:#}"));
            if writeln!(out, "{}{origin}", row.entry).is_err() {
                // The reader has closed the pipe.
                break;
            }
        }
        Ok(())
    }
}
