//! Runs the repository's own P4 tests (tests/corpus) on the interpreter.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use terrace::program::{self, Sources};
use terrace::stf::interpreter::Interpreter;
use terrace::stf::{parse, run};

/// Minimum number of tests. Fewer mean that they were not found.
const AT_LEAST: usize = 80;

fn tests(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            tests(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "stf") {
            found.push(path);
        }
    }
}

fn run_one(test: &Path) -> Result<(), String> {
    let text = fs::read_to_string(test).map_err(|error| error.to_string())?;
    let script = parse::parse(&test.display().to_string(), &text).map_err(|error| error.to_string())?;
    let compiled = program::compile(&test.with_extension("p4"), &Sources::default());
    let Some(pipeline) = compiled.pipeline else {
        let errors: Vec<String> = compiled.diagnostics.iter().map(|d| d.one_line(&compiled.source_map)).collect();
        return Err(errors.join("\n"));
    };
    let mut device = Interpreter::new(Arc::new(pipeline))?;
    let report = run::run(&script, &mut device, run::Options::default()).map_err(|error| error.to_string())?;
    if report.checks == 0 {
        return Err("the test checks nothing".to_owned());
    }
    if report.passed() { Ok(()) } else { Err(report.render()) }
}

#[test]
fn every_test_of_the_corpus_passes() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus");
    let mut all = Vec::new();
    tests(&corpus, &mut all);
    all.sort();
    assert!(all.len() >= AT_LEAST, "only {} tests in {}", all.len(), corpus.display());
    let failures: Vec<String> =
        all.iter().filter_map(|test| Some(format!("{}:\n{}", test.display(), run_one(test).err()?))).collect();
    assert!(failures.is_empty(), "{} of {} failed\n\n{}", failures.len(), all.len(), failures.join("\n\n"));
}
