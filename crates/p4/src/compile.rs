//! From a file to a verified pipeline: preprocess, parse, check, lower, run the passes.

use crate::architectures;
use crate::ast;
use crate::check::check;
use crate::diag::Diagnostic;
use crate::hir;
use crate::lex::Token;
use crate::lower::lower;
use crate::parse::parse_tokens;
use crate::preprocess::{self, FileLoader, preprocess};
use crate::span::{FileId, SourceMap, Span};
use ir::Pipeline;
use ir::passes::{Moment, Pass, run_passes};
use std::path::{Path, PathBuf};

/// What the caller chooses.
#[derive(Clone, Debug)]
pub struct Options {
    /// Directories in which `#include` searches, in order.
    pub include_dirs: Vec<PathBuf>,
    /// Macros defined before the first line: name and replacement.
    pub defines: Vec<(String, String)>,
    /// Bounds on preprocessing.
    pub limits: preprocess::Limits,
    /// Whether the passes run; without them the pipeline is as lowering left it.
    pub passes: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options { include_dirs: Vec::new(), defines: Vec::new(), limits: preprocess::Limits::default(), passes: true }
    }
}

/// What compiling yields.
#[derive(Debug)]
pub struct Compiled {
    /// The pipeline; `None` if there was an error.
    pub pipeline: Option<Pipeline>,
    /// Errors and warnings, in the order of the stages.
    pub diagnostics: Vec<Diagnostic>,
    /// The files, for the places of diagnostics.
    pub source_map: SourceMap,
    /// The typed program, if checking was reached.
    pub hir: Option<hir::Program>,
}

impl Compiled {
    /// Whether the program was refused.
    pub fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(Diagnostic::is_error)
    }
}

/// What a stage made, for dumps.
#[derive(Debug)]
pub enum Stage<'a> {
    /// After preprocessing.
    Tokens(&'a [Token], &'a SourceMap),
    /// After parsing.
    Syntax(&'a ast::Program, &'a SourceMap),
    /// After checking.
    Typed(&'a hir::Program, &'a SourceMap),
    /// After lowering.
    Lowered(&'a Pipeline),
    /// Before or after a pass.
    Pass(&'a Pass, Moment, &'a Pipeline),
    /// In the end.
    Done(&'a Pipeline),
}

/// Compiles the program at `path`.
///
/// A file that can't be read and everything else that is wrong is a diagnostic. Stages after the first with errors are not run.
///
/// ```
/// use p4::{compile::{Options, compile}, preprocess::MemoryLoader};
/// use std::path::Path;
///
/// let loader = MemoryLoader::new().with("main.p4", "const bit<8> ttl = true;");
/// let compiled = compile(&loader, Path::new("main.p4"), &Options::default());
/// assert!(compiled.has_errors() && compiled.pipeline.is_none());
/// ```
pub fn compile(loader: &dyn FileLoader, path: &Path, options: &Options) -> Compiled {
    compile_observed(loader, path, options, &mut |_| {})
}

/// As [`compile`]; `observe` sees what each stage made.
pub fn compile_observed(
    loader: &dyn FileLoader,
    path: &Path,
    options: &Options,
    observe: &mut dyn FnMut(Stage<'_>),
) -> Compiled {
    let preprocess_options = preprocess::Options {
        include_dirs: options.include_dirs.clone(),
        defines: options.defines.clone(),
        limits: options.limits.clone(),
    };
    let text = preprocess(loader, path, &preprocess_options);
    let mut compiled =
        Compiled { pipeline: None, diagnostics: text.diagnostics, source_map: text.source_map, hir: None };
    observe(Stage::Tokens(&text.tokens, &compiled.source_map));
    // What follows a missing file would be a flood of unknown names.
    if compiled.diagnostics.iter().any(|d| d.code == preprocess::INCLUDE_NOT_FOUND) {
        return compiled;
    }
    let (syntax, diagnostics) = parse_tokens(&text.tokens, &compiled.source_map, options.limits.errors);
    compiled.diagnostics.extend(diagnostics);
    observe(Stage::Syntax(&syntax, &compiled.source_map));
    if compiled.has_errors() {
        return name_foreign_architecture(compiled);
    }
    let (typed, diagnostics) = check(&syntax, &compiled.source_map);
    compiled.diagnostics.extend(diagnostics);
    observe(Stage::Typed(&typed, &compiled.source_map));
    if !compiled.has_errors() {
        let stem = path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
        let lowered = lower(&typed, &compiled.source_map, &stem);
        compiled.diagnostics.extend(lowered.diagnostics);
        if let Some(pipeline) = lowered.pipeline {
            finish(pipeline, options, observe, &mut compiled);
        }
    }
    compiled.hir = Some(typed);
    name_foreign_architecture(compiled)
}

/// Of a program for an architecture that does not run here, this is the one thing that is wrong; names and calls that the
/// architecture's file lacks would only hide it.
fn name_foreign_architecture(mut compiled: Compiled) -> Compiled {
    let is_named = compiled.diagnostics.iter().any(|d| d.code == architectures::UNSUPPORTED);
    if compiled.has_errors()
        && !is_named
        && let Some(foreign) = architectures::foreign_include(&compiled.source_map)
    {
        compiled.diagnostics = vec![foreign];
    }
    compiled
}

/// Verifies the pipeline and runs the passes.
fn finish(mut pipeline: Pipeline, options: &Options, observe: &mut dyn FnMut(Stage<'_>), compiled: &mut Compiled) {
    observe(Stage::Lowered(&pipeline));
    let done = if options.passes {
        run_passes(&mut pipeline, |pass, moment, pipeline| observe(Stage::Pass(pass, moment, pipeline)))
    } else {
        ir::verify::verify_after("lowering", &pipeline)
    };
    match done {
        Ok(()) => {
            observe(Stage::Done(&pipeline));
            compiled.pipeline = Some(pipeline);
        }
        Err(error) => {
            let message = format!("this is always a bug of the compiler: {error}");
            let start = Span::new(FileId(0), 0, 0);
            let help = "the program may be fine; please report it";
            compiled.diagnostics.push(Diagnostic::error("compiler-bug", start, message).help(help));
        }
    }
}
