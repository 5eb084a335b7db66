//! One case: runs in a process of its own and prints its [`Outcome`] as the last line.

use super::select::{Architecture, architecture, expected_stderr};
use super::stderr::named;
use super::{Category, Outcome};
use anyhow::Result;
use clap::Args;
use p4::compile::Compiled;
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
        let outcome = panic::catch_unwind(|| self.outcome()).unwrap_or_else(|_| {
            let text = panicked.lock().clone();
            Outcome::fail("panic", text)
        });
        println!("{}", serde_json::to_string(&outcome)?);
        Ok(true)
    }

    fn outcome(&self) -> Outcome {
        let path = self.testdata.join(&self.program);
        let architecture = architecture(&path);
        match self.category {
            Category::Stf => stf(&path),
            Category::Accept => accept(&path, architecture),
            Category::Errors => errors(&path, architecture, &expected_stderr(&self.testdata, &self.program)),
            Category::P4info => p4info(&path, &super::select::expected_p4info(&self.testdata, &self.program)),
        }
    }
}

/// Checks the program; programs of an architecture that we have are lowered as well. `#include "x"` searches the
/// program's own folder first, all else is ours.
fn front_end(path: &Path, architecture: Architecture) -> Compiled {
    let compiled = program::check(path, &Sources::default());
    let has_main = compiled.hir.as_ref().is_some_and(|typed| typed.main.is_some());
    if architecture == Architecture::CoreOnly || !has_main || compiled.has_errors() {
        return compiled;
    }
    program::compile(path, &Sources::default())
}

/// `FILE:LINE: message [code]`, with the file's name alone.
fn describe(diagnostic: &Diagnostic, map: &SourceMap) -> String {
    let place = place(diagnostic, map).map_or(String::new(), |(file, line)| format!("{file}:{line}: "));
    format!("{place}{} [{}]", diagnostic.message, diagnostic.code)
}

fn place(diagnostic: &Diagnostic, map: &SourceMap) -> Option<(String, u32)> {
    let at = map.location(diagnostic.primary)?;
    Some((at.file.rsplit('/').next().unwrap_or_default().to_owned(), at.line))
}

fn first_error(compiled: &Compiled) -> Option<&Diagnostic> {
    compiled.diagnostics.iter().find(|d| d.is_error())
}

fn refused(compiled: &Compiled, error: &Diagnostic) -> Outcome {
    Outcome::fail(format!("refused: {}", error.code), describe(error, &compiled.source_map))
}

fn accept(path: &Path, architecture: Architecture) -> Outcome {
    let compiled = front_end(path, architecture);
    match first_error(&compiled) {
        Some(error) => refused(&compiled, error),
        None => Outcome::Pass,
    }
}

fn errors(path: &Path, architecture: Architecture, stderr: &Path) -> Outcome {
    let Ok(bytes) = fs::read(stderr) else {
        return Outcome::Skip { reason: "p4c has no output for it".into() };
    };
    let named = named(&String::from_utf8_lossy(&bytes));
    if !named.errors {
        return Outcome::Skip { reason: "p4c only warns".into() };
    }
    let compiled = front_end(path, architecture);
    let found: Vec<&Diagnostic> = compiled.diagnostics.iter().filter(|d| d.is_error()).collect();
    let lines = |places: &mut dyn Iterator<Item = (String, u32)>| {
        places.map(|(file, line)| format!("{file}:{line}")).collect::<Vec<_>>().join(", ")
    };
    if found.is_empty() {
        let text = String::from_utf8_lossy(&bytes);
        let message = text.lines().find(|line| line.contains("error")).unwrap_or_default().to_owned();
        return Outcome::fail("accepted", format!("p4c: {message}"));
    }
    // Where p4c names no line of the checkout's files, refusing is all that can be asked: lines of its own core.p4 and v1model.p4 are
    // not those of ours.
    let ours = |file: &str| matches!(file, "core.p4" | "v1model.p4" | "pna.p4");
    let named_elsewhere = named.places.iter().all(|(file, _)| ours(file));
    let matches = |d: &&Diagnostic| place(d, &compiled.source_map).is_some_and(|place| named.places.contains(&place));
    if named_elsewhere || found.iter().any(matches) {
        return Outcome::Pass;
    }
    let p4c = lines(&mut named.places.iter().cloned());
    let first = describe(found[0], &compiled.source_map);
    Outcome::fail("another line", format!("p4c names {p4c}; ours: {first} ({} errors)", found.len()))
}

fn stf(path: &Path) -> Outcome {
    let test = path.with_extension("stf");
    let text = match fs::read(&test) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) => return Outcome::fail("test not read", error.to_string()),
    };
    let name = test.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let script = match parse::parse(&name, &text) {
        Ok(script) => script,
        Err(error) => return Outcome::fail("test refused", error.to_string()),
    };
    let compiled = program::compile(path, &Sources::default());
    if let Some(error) = first_error(&compiled) {
        return refused(&compiled, error);
    }
    let Some(pipeline) = compiled.pipeline else {
        return Outcome::fail("refused", "no pipeline, and no error that says why");
    };
    let report = Interpreter::new(Arc::new(pipeline))
        .map_err(|error| Outcome::fail("interpreter refuses the pipeline", error))
        .and_then(|mut device| {
            run::run(&script, &mut device, run::Options::default())
                .map_err(|error| Outcome::fail("command refused", error.to_string()))
        });
    match report {
        Err(failure) => failure,
        Ok(report) => match report.findings.first() {
            None => Outcome::Pass,
            Some(finding) => Outcome::fail(kind(finding), detail(finding, report.findings.len())),
        },
    }
}

fn kind(finding: &Finding) -> &'static str {
    match finding {
        Finding::Differs { .. } => "packet differs",
        Finding::Missing { .. } => "packet missing",
        Finding::Unexpected { .. } => "unexpected packet",
        Finding::Check { .. } => "check failed",
    }
}

fn detail(finding: &Finding, findings: usize) -> String {
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

fn p4info(path: &Path, expected: &Path) -> Outcome {
    let expected = match fs::read(expected) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) => return Outcome::fail("p4c's P4Info not read", error.to_string()),
    };
    let compiled = program::compile(path, &Sources::default());
    if let Some(error) = first_error(&compiled) {
        return refused(&compiled, error);
    }
    let Some(pipeline) = compiled.pipeline else {
        return Outcome::fail("refused", "no pipeline, and no error that says why");
    };
    match ir::p4info::compare(&ir::p4info::generate(&pipeline), &expected) {
        Err(error) => Outcome::fail("p4c's P4Info not read", error),
        Ok(differences) => match differences.first() {
            None => Outcome::Pass,
            Some(first) => Outcome::fail(cause(first), format!("{first} ({} differences)", differences.len())),
        },
    }
}

/// The field that differs, without what identifies the object: failures of one kind are shown together.
fn cause(difference: &ir::p4info::Difference) -> String {
    format!("differs in {}", difference.fields.join("."))
}
