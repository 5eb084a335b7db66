//! Flags of all commands that read P4.

use super::failure::Failure;
use super::ui::Ui;
use crate::program::{self, Sources};
use clap::Args;
use ir::Pipeline;
use p4::compile::Compiled;
use p4::diag::Diagnostic;
use p4::span::SourceMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where includes are searched, and macros.
#[derive(Clone, Debug, Default, Args)]
pub struct SourceArgs {
    /// Search DIR for included files, before those that terrace brings along (core.p4, v1model.p4, pna.p4).
    #[arg(short = 'I', long = "include", value_name = "DIR")]
    include: Vec<PathBuf>,
    /// Define a macro for the preprocessor; the value is 1 unless given.
    #[arg(short = 'D', long = "define", value_name = "NAME[=VALUE]")]
    define: Vec<String>,
}

impl SourceArgs {
    /// As the front-end takes them.
    pub fn sources(&self) -> Sources {
        Sources { include_dirs: self.include.clone(), defines: self.define.clone() }
    }

    /// Compiles the program; findings go to standard error.
    ///
    /// # Errors
    /// If the program is refused, which has been said in full then (in JSON: is in the error).
    pub fn pipeline(&self, path: &Path, ui: Ui) -> Result<Arc<Pipeline>, Failure> {
        let progress = ui.progress(format!("compiling {}", path.display()));
        let compiled = program::compile(path, &self.sources());
        drop(progress);
        let Compiled { source_map, diagnostics, pipeline, .. } = compiled;
        match pipeline {
            Some(pipeline) => {
                show(&diagnostics, &source_map, ui);
                Ok(Arc::new(pipeline))
            }
            None => Err(refusal(&diagnostics, &source_map, ui)),
        }
    }
}

/// Shows findings on standard error; not in JSON, where the commands put them into their documents.
pub fn show(found: &[Diagnostic], map: &SourceMap, ui: Ui) {
    if ui.json {
        return;
    }
    let mut err = anstream::stderr().lock();
    for diagnostic in found.iter().filter(|d| d.is_error() || !ui.quiet) {
        let _ = writeln!(err, "{}", diagnostic.render(map, true));
    }
}

/// The failure for a program that is refused; shows its findings.
pub fn refusal(found: &[Diagnostic], map: &SourceMap, ui: Ui) -> Failure {
    show(found, map, ui);
    if !ui.json {
        return Failure::RefusedShown;
    }
    let errors: Vec<_> = found.iter().map(|d| d.to_json(map)).collect();
    let document = serde_json::json!({ "error": { "kind": "refused", "diagnostics": errors } });
    match ui.result(&document, String::new) {
        Ok(()) => Failure::RefusedShown,
        Err(failure) => failure,
    }
}
