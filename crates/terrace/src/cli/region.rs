//! `terrace region`.

use super::failure::Failure;
use super::inputs::load_region;
use super::program_args::SourceArgs;
use super::show::{NodeArgs, failed, unexpected};
use super::ui::{Ui, print, style};
use crate::program::DEFAULT_PROGRAM;
use clap::{Args, Subcommand};
use node::admin::{Answer, Request, ask};
use node::region::{Applied, Difference, RegionStatus};
use region::{LoadError, Numbers};
use serde::Serialize;
use std::io::Write;
use std::path::PathBuf;

/// Check region files, see the entries that they make, and have a node serve one.
#[derive(Debug, Args)]
pub struct RegionArgs {
    #[command(subcommand)]
    command: RegionCommand,
}

#[derive(Debug, Subcommand)]
enum RegionCommand {
    /// Check a region file: everything that is wrong, with line and mend. The exit code is 1 if something is.
    Check(CheckArgs),
    /// Print the entries that a region file makes, each with the line that it comes from.
    Entries(EntriesArgs),
    /// Print the JSON Schema of region files, for editors.
    Schema,
    /// Have a node read its region file again, or another one from now on.
    ///
    /// The node compares the file with its tables, and writes the difference as one batch: a packet meets the old region or the new one. A
    /// file with something wrong changes nothing (exit code 3).
    Apply(FileArgs),
    /// Show what an application of the region file, or of another one, would change.
    Diff(FileArgs),
    /// Show which region a node serves, and what of it does not fit the node's ports.
    Status(NodeArgs),
}

#[derive(Debug, Args)]
struct FileArgs {
    /// The region file; the one in force unless given.
    #[arg(value_name = "FILE.yaml")]
    file: Option<PathBuf>,
    #[command(flatten)]
    node: NodeArgs,
}

#[derive(Debug, Args)]
struct CheckArgs {
    /// Region files.
    #[arg(value_name = "FILE.yaml", required = true)]
    files: Vec<PathBuf>,
}

#[derive(Debug, Args)]
struct EntriesArgs {
    /// The region file.
    #[arg(value_name = "FILE.yaml")]
    file: PathBuf,
    /// The program; the gateway that terrace brings along unless given.
    #[arg(long, value_name = "FILE.p4", default_value = DEFAULT_PROGRAM, hide_default_value = true)]
    program: PathBuf,
    /// Only entries of tables whose name contains TEXT.
    #[arg(long, value_name = "TEXT")]
    table: Option<String>,
    #[command(flatten)]
    sources: SourceArgs,
}

#[derive(Serialize)]
struct Checked {
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
    pub(super) fn run(self, ui: Ui) -> Result<(), Failure> {
        match self.command {
            RegionCommand::Check(args) => args.run(ui),
            RegionCommand::Entries(args) => args.run(ui),
            RegionCommand::Apply(args) => args.apply(ui),
            RegionCommand::Diff(args) => args.diff(ui),
            RegionCommand::Status(node) => status(&node, ui),
            RegionCommand::Schema => {
                let schema = serde_json::to_string_pretty(&region::schema());
                print(&schema.map_err(|error| Failure::Bug(error.to_string()))?)
            }
        }
    }
}

impl CheckArgs {
    fn run(self, ui: Ui) -> Result<(), Failure> {
        let mut all = Vec::new();
        for path in &self.files {
            let progress = ui.progress(format!("checking {}", path.display()));
            let loaded = region::load(path);
            drop(progress);
            let mut checked = Checked {
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
                Err(LoadError::Wrong(problems)) => {
                    (checked.problems, checked.more) = (problems.problems, problems.more);
                }
                Err(error) => return Err(Failure::refused(error)),
            }
            if !ui.json {
                print(&checked.text())?;
            }
            all.push(checked);
        }
        if ui.json {
            ui.result(&all, String::new)?;
        }
        if all.iter().all(|checked| checked.accepted) { Ok(()) } else { Err(Failure::Failed) }
    }
}

impl Checked {
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
    /// The file as the node finds it, in whatever directory that works.
    fn absolute(&self) -> Result<Option<PathBuf>, Failure> {
        let absolute = |path: &PathBuf| {
            let failed = |error| Failure::Refused(format!("cannot find {}: {error}; check the path", path.display()));
            std::fs::canonicalize(path).map_err(failed)
        };
        self.file.as_ref().map(absolute).transpose()
    }

    fn apply(self, ui: Ui) -> Result<(), Failure> {
        let request = Request::RegionApply { file: self.absolute()? };
        let progress = ui.progress("applying");
        let answer = ask(&self.node.socket(), &request).map_err(failed)?;
        drop(progress);
        match answer {
            Answer::RegionApplied(applied) => ui.result(&applied, || applied.to_string()),
            answer => Err(unexpected(&answer)),
        }
    }

    fn diff(self, ui: Ui) -> Result<(), Failure> {
        let request = Request::RegionDiff { file: self.absolute()? };
        let progress = ui.progress("comparing");
        let answer = ask(&self.node.socket(), &request).map_err(failed)?;
        drop(progress);
        match answer {
            Answer::RegionDiffers(difference) => ui.result(&difference, || difference_text(&difference)),
            answer => Err(unexpected(&answer)),
        }
    }
}

fn difference_text(difference: &Difference) -> String {
    let mut text: String = difference.lines.iter().map(|line| format!("{line}\n")).collect();
    if difference.more > 0 {
        text += &format!("and {} more\n", difference.more);
    }
    let Applied { inserted, modified, deleted, .. } = difference.summary;
    text += &format!("{inserted} entries to add, {modified} to change, {deleted} to remove");
    difference.summary.warnings.iter().for_each(|warning| text += &format!("\nwarning: {warning}"));
    text
}

fn status(node: &NodeArgs, ui: Ui) -> Result<(), Failure> {
    match ask(&node.socket(), &Request::Region).map_err(failed)? {
        Answer::Region(status) => ui.result(&status, || status_text(&status)),
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
        text += &format!("\n{bad}refused{bad:#} last, what is in force is older: {refused}");
    }
    text
}

impl EntriesArgs {
    fn run(self, ui: Ui) -> Result<(), Failure> {
        let pipeline = self.sources.pipeline(&self.program, ui)?;
        let loaded = load_region(&self.file, &pipeline, &mut Numbers::default(), ui)?;
        let wanted = |name: &str| self.table.as_deref().is_none_or(|text| name.contains(text));
        let mut shown = Vec::new();
        for (table, action) in &loaded.entries.defaults {
            let name = &pipeline.tables[*table].preamble.name;
            if wanted(name) {
                let entry = entries::TableEntry::new(*table, Vec::new(), action.clone());
                let text = entries::format_entry(&pipeline, &entry);
                let entry = format!("default {text}");
                shown.push(EntryJson { table: name.clone(), entry, provenance: None });
            }
        }
        for entry in &loaded.entries.entries {
            let name = &pipeline.tables[entry.table].preamble.name;
            if wanted(name) {
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
        for one in &shown {
            let from = one.provenance.as_ref().map_or(String::new(), |from| format!("  {dim}# {from}{dim:#}"));
            if writeln!(out, "{}{from}", one.entry).is_err() {
                // Nobody reads any more.
                break;
            }
        }
        Ok(())
    }
}
