//! Runs one case in its own process, and prints its [`CaseOutcome`] as the last line.

use super::select::{Architecture, architecture, expected_stderr};
use super::stderr::parse_errors;
use super::{CaseOutcome, Category};
use anyhow::Result;
use clap::Args;
use p4::compile::Compilation;
use p4::diag::Diagnostic;
use p4::span::SourceMap;
use parking_lot::Mutex;
use std::fs;
use std::panic;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use terrace::program::{self, Sources};
use terrace::stf::report::Finding;
use terrace::stf::{interpreter::Interpreter, parse, run};

/// Run one case (used by `conformance` itself).
#[derive(Debug, Args)]
pub struct CaseArgs {
    #[arg(long)]
    category: Category,
    #[arg(long)]
    testdata: PathBuf,
    #[arg(long)]
    program: String,
}

impl CaseArgs {
    /// Runs the case.
    pub fn run(self) -> Result<bool> {
        let panicked = Arc::new(Mutex::new(String::new()));
        let note = Arc::clone(&panicked);
        panic::set_hook(Box::new(move |info| {
            let text = info.to_string().replace('\n', " ");
            *note.lock() = text;
        }));
        let outcome = panic::catch_unwind(|| self.case_outcome()).unwrap_or_else(|_| {
            let text = panicked.lock().clone();
            CaseOutcome::fail("panic", text)
        });
        println!("{}", serde_json::to_string(&outcome)?);
        Ok(true)
    }

    fn case_outcome(&self) -> CaseOutcome {
        let path = self.testdata.join(&self.program);
        let architecture = architecture(&path);
        match self.category {
            Category::Stf => stf_outcome(&path),
            Category::Accept => accept_outcome(&path, architecture),
            Category::Errors => errors_outcome(&path, architecture, &expected_stderr(&self.testdata, &self.program)),
            Category::P4info => p4info_outcome(&path, &super::select::expected_p4info(&self.testdata, &self.program)),
        }
    }
}

/// Checks the program. Programs for a supported architecture are also lowered. `#include "x"`
/// searches the program's folder first; all other includes are Terrace's.
fn front_end(path: &Path, architecture: Architecture) -> Compilation {
    let compiled = program::check(path, &Sources::default());
    let has_main = compiled.hir.as_ref().is_some_and(|typed| typed.main.is_some());
    if architecture == Architecture::CoreOnly || !has_main || compiled.has_errors() {
        return compiled;
    }
    program::compile(path, &Sources::default())
}

/// Formats a diagnostic as `FILE:LINE: message [code]`, with the file's name without folders.
fn describe(diagnostic: &Diagnostic, map: &SourceMap) -> String {
    let place = source_location(diagnostic, map).map_or(String::new(), |(file, line)| format!("{file}:{line}: "));
    format!("{place}{} [{}]", diagnostic.message, diagnostic.code)
}

fn source_location(diagnostic: &Diagnostic, map: &SourceMap) -> Option<(String, u32)> {
    let at = map.location(diagnostic.primary)?;
    Some((at.file.rsplit('/').next().unwrap_or_default().to_owned(), at.line))
}

fn first_error(compiled: &Compilation) -> Option<&Diagnostic> {
    compiled.diagnostics.iter().find(|d| d.is_error())
}

fn refused_outcome(compiled: &Compilation, error: &Diagnostic) -> CaseOutcome {
    CaseOutcome::fail(format!("refused: {}", error.code), describe(error, &compiled.source_map))
}

fn accept_outcome(path: &Path, architecture: Architecture) -> CaseOutcome {
    let compiled = front_end(path, architecture);
    match first_error(&compiled) {
        Some(error) => refused_outcome(&compiled, error),
        None => CaseOutcome::Pass,
    }
}

/// Returns the outcome for a program that p4c refuses: the front-end must refuse it with an error
/// at a line that p4c names. `stderr` is the file with p4c's output.
fn errors_outcome(path: &Path, architecture: Architecture, stderr: &Path) -> CaseOutcome {
    let Ok(bytes) = fs::read(stderr) else {
        return CaseOutcome::Skip { reason: "p4c has no output for it".into() };
    };
    let p4c_errors = parse_errors(&String::from_utf8_lossy(&bytes));
    if !p4c_errors.errors {
        return CaseOutcome::Skip { reason: "p4c only warns".into() };
    }
    let compiled = front_end(path, architecture);
    let our_errors: Vec<&Diagnostic> = compiled.diagnostics.iter().filter(|d| d.is_error()).collect();
    let join_locations = |places: &mut dyn Iterator<Item = (String, u32)>| {
        places.map(|(file, line)| format!("{file}:{line}")).collect::<Vec<_>>().join(", ")
    };
    if our_errors.is_empty() {
        let text = String::from_utf8_lossy(&bytes);
        let message = text.lines().find(|line| line.contains("error")).unwrap_or_default().to_owned();
        return CaseOutcome::fail("accepted", format!("p4c: {message}"));
    }
    // If p4c names only lines of its own core.p4 and v1model.p4, any refusal passes, because these
    // lines do not exist in our files.
    let is_bundled = |file: &str| matches!(file, "core.p4" | "v1model.p4" | "pna.p4");
    let names_only_bundled = p4c_errors.places.iter().all(|(file, _)| is_bundled(file));
    let at_named_line = |d: &&Diagnostic| {
        source_location(d, &compiled.source_map).is_some_and(|place| p4c_errors.places.contains(&place))
    };
    if names_only_bundled || our_errors.iter().any(at_named_line) {
        return CaseOutcome::Pass;
    }
    let p4c = join_locations(&mut p4c_errors.places.iter().cloned());
    let first = describe(our_errors[0], &compiled.source_map);
    CaseOutcome::fail("another line", format!("p4c names {p4c}; ours: {first} ({} errors)", our_errors.len()))
}

/// Returns the outcome of a program's STF test, run on the interpreter. The cause of a failure is
/// the first finding.
fn stf_outcome(path: &Path) -> CaseOutcome {
    let test = path.with_extension("stf");
    let text = match fs::read(&test) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) => return CaseOutcome::fail("test not read", error.to_string()),
    };
    let name = test.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let script = match parse::parse(&name, &text) {
        Ok(script) => script,
        Err(error) => return CaseOutcome::fail("test refused", error.to_string()),
    };
    let compiled = program::compile(path, &Sources::default());
    if let Some(error) = first_error(&compiled) {
        return refused_outcome(&compiled, error);
    }
    let Some(pipeline) = compiled.pipeline else {
        return CaseOutcome::fail("refused", "no pipeline, and no error that says why");
    };
    let report = Interpreter::new(Arc::new(pipeline))
        .map_err(|error| CaseOutcome::fail("interpreter refuses the pipeline", error))
        .and_then(|mut device| {
            run::run(&script, &mut device, run::Options::default())
                .map_err(|error| CaseOutcome::fail("command refused", error.to_string()))
        });
    match report {
        Err(failure) => failure,
        Ok(report) => match report.findings.first() {
            None => CaseOutcome::Pass,
            Some(finding) => CaseOutcome::fail(finding_kind(finding), finding_detail(finding, report.findings.len())),
        },
    }
}

fn finding_kind(finding: &Finding) -> &'static str {
    match finding {
        Finding::Differs { .. } => "packet differs",
        Finding::Missing { .. } => "packet missing",
        Finding::Unexpected { .. } => "unexpected packet",
        Finding::Check { .. } => "check failed",
    }
}

fn finding_detail(finding: &Finding, findings: usize) -> String {
    let text = match finding {
        Finding::Differs { port, expect_line, difference, expected, got, .. } => {
            format!("line {expect_line}, port {port}: {difference}; expected {expected}, got {got}")
        }
        Finding::Missing { port, expect_line, expected, .. } => {
            format!("line {expect_line}, port {port}: none came, expected {}", expected.as_deref().unwrap_or("any"))
        }
        Finding::Unexpected { port, packet_line, got, .. } => {
            format!("from line {packet_line}, port {port}: {got}")
        }
        Finding::Check { line, message } => format!("line {line}: {message}"),
    };
    format!("{text} ({findings} findings)")
}

/// Returns the outcome of the comparison of a program's P4Info with p4c's, in the file `expected`.
fn p4info_outcome(path: &Path, expected: &Path) -> CaseOutcome {
    let expected = match fs::read(expected) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) => return CaseOutcome::fail("p4c's P4Info not read", error.to_string()),
    };
    let compiled = program::compile(path, &Sources::default());
    if let Some(error) = first_error(&compiled) {
        return refused_outcome(&compiled, error);
    }
    let Some(pipeline) = compiled.pipeline else {
        return CaseOutcome::fail("refused", "no pipeline, and no error that says why");
    };
    match ir::p4info::compare(&ir::p4info::generate(&pipeline), &expected) {
        Err(error) => CaseOutcome::fail("p4c's P4Info not read", error),
        Ok(differences) => match differences.first() {
            None => CaseOutcome::Pass,
            Some(first) => {
                CaseOutcome::fail(difference_cause(first), format!("{first} ({} differences)", differences.len()))
            }
        },
    }
}

/// Returns the differing field without the object's identity, so that failures of one kind are
/// grouped.
fn difference_cause(difference: &ir::p4info::P4InfoDifference) -> String {
    format!("differs in {}", difference.fields.join("."))
}
