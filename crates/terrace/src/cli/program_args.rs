//! Options of all commands that read P4.

use super::failure::CommandError;
use super::ui::OutputSettings;
use crate::program::{self, Sources};
use clap::Args;
use ir::Pipeline;
use p4::compile::Compilation;
use p4::diag::Diagnostic;
use p4::span::SourceMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Include directories and macros.
#[derive(Clone, Debug, Default, Args)]
pub struct SourceArgs {
    /// Search DIR for included files, before the built-in ones (core.p4, v1model.p4, pna.p4).
    #[arg(short = 'I', long = "include", value_name = "DIR")]
    include: Vec<PathBuf>,
    /// Define a macro for the preprocessor. Default value: 1.
    #[arg(short = 'D', long = "define", value_name = "NAME[=VALUE]")]
    define: Vec<String>,
}

impl SourceArgs {
    /// Returns the options in the form that the front-end takes.
    pub fn sources(&self) -> Sources {
        Sources { include_dirs: self.include.clone(), defines: self.define.clone() }
    }

    /// Compiles the program and prints diagnostics on standard error.
    ///
    /// # Errors
    /// If the program is refused. Its diagnostics are then already printed, or with JSON output are
    /// part of the error.
    pub fn pipeline(&self, path: &Path, ui: OutputSettings) -> Result<Arc<Pipeline>, CommandError> {
        let progress = ui.progress(format!("compiling {}", path.display()));
        let compiled = program::compile(path, &self.sources());
        drop(progress);
        let Compilation { source_map, diagnostics, pipeline, .. } = compiled;
        match pipeline {
            Some(pipeline) => {
                show_diagnostics(&diagnostics, &source_map, ui);
                Ok(Arc::new(pipeline))
            }
            None => Err(refused_program(&diagnostics, &source_map, ui)),
        }
    }
}

/// Returns the program that a switch runs: without second passes of packets. Says so if there are
/// any.
pub fn switch_program(pipeline: Arc<Pipeline>, ui: OutputSettings) -> Arc<Pipeline> {
    let program = ir::passes::without_recirculation(&pipeline);
    if !Arc::ptr_eq(&program, &pipeline) && !ui.json {
        ui.note(
            "a switch has no second pass: packets that the program recirculates keep the verdict that they had before",
        );
    }
    program
}

/// Prints diagnostics on standard error. With JSON output prints nothing, because the commands
/// include them in their documents.
pub fn show_diagnostics(found: &[Diagnostic], map: &SourceMap, ui: OutputSettings) {
    if ui.json {
        return;
    }
    let mut err = anstream::stderr().lock();
    for diagnostic in found.iter().filter(|d| d.is_error() || !ui.quiet) {
        let _ = writeln!(err, "{}", diagnostic.render(map, true));
    }
}

/// Prints the diagnostics of a refused program and returns the error.
pub fn refused_program(found: &[Diagnostic], map: &SourceMap, ui: OutputSettings) -> CommandError {
    show_diagnostics(found, map, ui);
    if !ui.json {
        return CommandError::RefusedShown;
    }
    let errors: Vec<_> = found.iter().map(|d| d.to_json(map)).collect();
    let document = serde_json::json!({ "error": { "kind": "refused", "diagnostics": errors } });
    match ui.result(&document, String::new) {
        Ok(()) => CommandError::RefusedShown,
        Err(failure) => failure,
    }
}
