//! `terrace check`.

use super::failure::CommandError;
use super::program_args::SourceArgs;
use super::ui::{OutputSettings, style};
use crate::program;
use clap::Args;
use p4::diag::{Diagnostic, Severity};
use serde::Serialize;
use std::io::Write;
use std::path::PathBuf;

/// Check P4-16 programs: syntax, names, types, and lowering to a pipeline.
///
/// Diagnostics are written to standard error, with source line and fix. The exit code is 1 if any
/// program has an error. If the only error is an extern that no engine here implements, the program
/// is accepted with a warning.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// P4-16 programs to check.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Check only the language. The program may lack `main`, or use an unsupported architecture.
    #[arg(long)]
    language_only: bool,
    #[command(flatten)]
    sources: SourceArgs,
}

#[derive(Serialize)]
struct CheckedProgram {
    file: String,
    accepted: bool,
    errors: usize,
    warnings: usize,
    diagnostics: Vec<serde_json::Value>,
}

impl CheckArgs {
    /// Compiles or only checks programs, and prints their diagnostics. Fails if one is refused.
    pub(super) fn run(self, ui: OutputSettings) -> Result<(), CommandError> {
        let sources = self.sources.sources();
        let mut programs = Vec::new();
        for file in &self.files {
            let mut compiled = match self.language_only {
                true => program::check(file, &sources),
                false => program::compile(file, &sources),
            };
            accept_foreign_externs(&mut compiled.diagnostics);
            let errors = compiled.diagnostics.iter().filter(|d| d.is_error()).count();
            let warnings = compiled.diagnostics.len() - errors;
            super::program_args::show_diagnostics(&compiled.diagnostics, &compiled.source_map, ui);
            if !ui.json && !ui.quiet {
                let (style, word) = if errors == 0 { (style::GOOD, "accepted") } else { (style::BAD, "refused") };
                let counts = format!("{errors} errors, {warnings} warnings");
                let _ = writeln!(anstream::stdout(), "{}: {style}{word}{style:#} ({counts})", file.display());
            }
            let diagnostics = compiled.diagnostics.iter().map(|d| d.to_json(&compiled.source_map));
            let diagnostics = diagnostics.collect();
            programs.push(CheckedProgram {
                file: file.display().to_string(),
                accepted: errors == 0,
                errors,
                warnings,
                diagnostics,
            });
        }
        if ui.json {
            ui.result(&programs, String::new)?;
        }
        if programs.iter().all(|checked| checked.accepted) { Ok(()) } else { Err(CommandError::Failed) }
    }
}

/// Turns errors about externs without implementation into warnings, because a program that declares
/// externs for another target can be correct.
fn accept_foreign_externs(diagnostics: &mut [Diagnostic]) {
    let is_foreign = |d: &Diagnostic| d.code == p4::lower::EXTERN_WITHOUT_IMPLEMENTATION;
    if diagnostics.iter().all(|d| !d.is_error() || is_foreign(d)) {
        diagnostics.iter_mut().filter(|d| is_foreign(d)).for_each(|d| d.severity = Severity::Warning);
    }
}
