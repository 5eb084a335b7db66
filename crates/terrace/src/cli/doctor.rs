//! `terrace doctor`.

use super::engine_args::usual_configuration;
use super::failure::CommandError;
use super::ui::{OutputSettings, style};
use crate::doctor::{Finding, MachineFacts, Requirements, Severity, examine};
use clap::Args;
use node::config;
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Examine whether this machine suits a gateway, and print what to change, with the command.
///
/// Looks at the kernel, permissions, processors, memory, the IOMMU, and at each port's link, MTU,
/// offloads and queues. With --config, it looks for what that node needs. Nothing is changed. The
/// exit code is 1 if there is an error: the node would not start, or a port carries no packets.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Interfaces to examine, besides the node's ports.
    #[arg(value_name = "INTERFACE")]
    interfaces: Vec<String>,
    /// Configuration of the node, whose ports, processors and region are examined.
    #[arg(long, value_name = "NODE.toml")]
    config: Option<PathBuf>,
    /// Region file to use instead of the one in the configuration.
    #[arg(long, value_name = "FILE.yaml")]
    region: Option<PathBuf>,
    /// Network namespace of INTERFACE.
    #[arg(long, value_name = "NAME", requires = "interfaces")]
    netns: Option<String>,
    /// Also print the checks that found nothing to change.
    #[arg(long, short)]
    verbose: bool,
}

/// Result as JSON.
#[derive(Serialize)]
struct Examination {
    findings: Vec<Finding>,
    errors: usize,
    warnings: usize,
    notes: usize,
}

impl DoctorArgs {
    pub(super) fn run(self, ui: OutputSettings) -> Result<(), CommandError> {
        let progress = ui.progress("examining this machine");
        let needed = self.requirements()?;
        let namespaces: BTreeSet<Option<String>> = needed.ports.iter().map(|port| port.netns.clone()).collect();
        let pci = needed.ports.iter().filter_map(|port| port.pci_address()).collect();
        let findings = examine(&MachineFacts::read(&namespaces, &pci), &needed);
        drop(progress);
        let count = |severity| findings.iter().filter(|finding| finding.severity == severity).count();
        let (errors, warnings, notes) = (count(Severity::Error), count(Severity::Warning), count(Severity::Note));
        let examination = Examination { findings, errors, warnings, notes };
        ui.result(&examination, || examination.text(self.verbose))?;
        if errors == 0 { Ok(()) } else { Err(CommandError::Failed) }
    }

    /// Returns what the node and the named interfaces need.
    fn requirements(&self) -> Result<Requirements, CommandError> {
        let file = match &self.config {
            Some(path) => config::load(path, terraced::wings()).map_err(CommandError::refused)?.file,
            None => usual_configuration()?,
        };
        let path: Option<&Path> = self.region.as_deref().or(file.region.as_deref());
        let region = path.map(region::load).transpose().map_err(CommandError::refused)?;
        let mut needed = Requirements::new(&file, region.as_ref());
        for interface in &self.interfaces {
            needed.add_interface(interface, self.netns.as_deref());
        }
        Ok(needed)
    }
}

impl Examination {
    fn text(&self, verbose: bool) -> String {
        let mut text = String::new();
        for finding in self.findings.iter().filter(|finding| verbose || finding.severity > Severity::Ok) {
            text += &finding_text(finding);
        }
        let Examination { errors, warnings, notes, findings } = self;
        let passed = findings.len() - errors - warnings - notes;
        text + &format!(
            "{errors} errors, {warnings} warnings, {notes} notes; {passed} checks found nothing to change\n"
        )
    }
}

/// Formats a finding: a line with what was seen, and a line with the fix.
fn finding_text(finding: &Finding) -> String {
    let (colour, word) = match finding.severity {
        Severity::Ok => (style::GOOD, "ok"),
        Severity::Note => (style::NAME, "note"),
        Severity::Warning => (style::WARN, "warning"),
        Severity::Error => (style::BAD, "error"),
    };
    let Finding { check, subject, observation, fix, .. } = finding;
    let mut text = format!("{colour}{word}{colour:#}: {subject}: {observation} [{check}]\n");
    if let Some(fix) = fix {
        text += &format!("  fix: {fix}\n");
    }
    text
}
