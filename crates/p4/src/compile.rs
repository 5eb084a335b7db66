//! Compiles a P4 file to a verified pipeline: preprocess, parse, check, lower, run the passes.

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
use ir::passes::{Pass, PassPhase, run_passes};
use std::path::{Path, PathBuf};

/// Options of a compilation.
#[derive(Clone, Debug)]
pub struct CompileOptions {
    /// Directories in which `#include` searches, in order.
    pub include_dirs: Vec<PathBuf>,
    /// Macros defined before the first line: name and replacement.
    pub defines: Vec<(String, String)>,
    /// Limits of the preprocessor.
    pub limits: preprocess::PreprocessLimits,
    /// Whether the passes run. Without them, the pipeline is the output of lowering.
    pub passes: bool,
}

impl Default for CompileOptions {
    fn default() -> Self {
        CompileOptions {
            include_dirs: Vec::new(),
            defines: Vec::new(),
            limits: preprocess::PreprocessLimits::default(),
            passes: true,
        }
    }
}

/// Result of a compilation.
#[derive(Debug)]
pub struct Compilation {
    /// The pipeline; `None` if there was an error.
    pub pipeline: Option<Pipeline>,
    /// Errors and warnings, in the order of the stages.
    pub diagnostics: Vec<Diagnostic>,
    /// The source files, which give diagnostics their file and line.
    pub source_map: SourceMap,
    /// The typed program, if checking was reached.
    pub hir: Option<hir::Program>,
}

impl Compilation {
    /// Returns whether the program was rejected.
    pub fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(Diagnostic::is_error)
    }
}

/// Output of one compiler stage, for dumps.
#[derive(Debug)]
pub enum CompileStage<'a> {
    /// After preprocessing.
    Tokens(&'a [Token], &'a SourceMap),
    /// After parsing.
    Syntax(&'a ast::Program, &'a SourceMap),
    /// After checking.
    Typed(&'a hir::Program, &'a SourceMap),
    /// After lowering.
    Lowered(&'a Pipeline),
    /// Before or after a pass.
    Pass(&'a Pass, PassPhase, &'a Pipeline),
    /// The finished pipeline.
    Finished(&'a Pipeline),
}

/// Compiles the program at `path`.
///
/// An unreadable file is reported as a diagnostic, like every other fault. Compilation stops after
/// the first stage with errors.
///
/// ```
/// use p4::{compile::{CompileOptions, compile}, preprocess::MemoryLoader};
/// use std::path::Path;
///
/// let loader = MemoryLoader::new().with("main.p4", "const bit<8> ttl = true;");
/// let compiled = compile(&loader, Path::new("main.p4"), &CompileOptions::default());
/// assert!(compiled.has_errors() && compiled.pipeline.is_none());
/// ```
pub fn compile(loader: &dyn FileLoader, path: &Path, options: &CompileOptions) -> Compilation {
    compile_observed(loader, path, options, &mut |_| {})
}

/// Compiles the program at `path` like [`compile`] and passes the output of each stage to
/// `observe`, also if errors prevent the next stage.
pub fn compile_observed(
    loader: &dyn FileLoader,
    path: &Path,
    options: &CompileOptions,
    observe: &mut dyn FnMut(CompileStage<'_>),
) -> Compilation {
    let preprocess_options = preprocess::PreprocessOptions {
        include_dirs: options.include_dirs.clone(),
        defines: options.defines.clone(),
        limits: options.limits.clone(),
    };
    let preprocessed = preprocess(loader, path, &preprocess_options);
    let mut compiled = Compilation {
        pipeline: None,
        diagnostics: preprocessed.diagnostics,
        source_map: preprocessed.source_map,
        hir: None,
    };
    observe(CompileStage::Tokens(&preprocessed.tokens, &compiled.source_map));
    // Stop here, because a missing file causes an error for each of its names.
    if compiled.diagnostics.iter().any(|d| d.code == preprocess::INCLUDE_NOT_FOUND) {
        return compiled;
    }
    let (syntax_tree, diagnostics) = parse_tokens(&preprocessed.tokens, &compiled.source_map, options.limits.errors);
    compiled.diagnostics.extend(diagnostics);
    observe(CompileStage::Syntax(&syntax_tree, &compiled.source_map));
    if compiled.has_errors() {
        return keep_unsupported_architecture(compiled);
    }
    let (typed_program, diagnostics) = check(&syntax_tree, &compiled.source_map);
    compiled.diagnostics.extend(diagnostics);
    observe(CompileStage::Typed(&typed_program, &compiled.source_map));
    if !compiled.has_errors() {
        let stem = path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
        let lowered = lower(&typed_program, &compiled.source_map, &stem);
        compiled.diagnostics.extend(lowered.diagnostics);
        if let Some(pipeline) = lowered.pipeline {
            run_passes_and_verify(pipeline, options, observe, &mut compiled);
        }
    }
    compiled.hir = Some(typed_program);
    keep_unsupported_architecture(compiled)
}

/// Replaces all diagnostics by a single one if the program is written for an architecture that
/// Terrace does not run, because errors about names that its file declares would hide the cause.
fn keep_unsupported_architecture(mut compiled: Compilation) -> Compilation {
    let is_named = compiled.diagnostics.iter().any(|d| d.code == architectures::UNSUPPORTED);
    if compiled.has_errors()
        && !is_named
        && let Some(foreign) = architectures::find_unsupported_include(&compiled.source_map)
    {
        compiled.diagnostics = vec![foreign];
    }
    compiled
}

/// Runs the passes, if the options ask for them, and verifies the pipeline; then stores it in
/// `compiled`. A violation is a bug of the compiler and is reported as such.
fn run_passes_and_verify(
    mut pipeline: Pipeline,
    options: &CompileOptions,
    observe: &mut dyn FnMut(CompileStage<'_>),
    compiled: &mut Compilation,
) {
    observe(CompileStage::Lowered(&pipeline));
    let verified = if options.passes {
        run_passes(&mut pipeline, |pass, moment, pipeline| observe(CompileStage::Pass(pass, moment, pipeline)))
    } else {
        ir::verify::verify_after("lowering", &pipeline)
    };
    match verified {
        Ok(()) => {
            observe(CompileStage::Finished(&pipeline));
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
