//! Parses every `.p4` file of some directories and prints the errors.
//!
//! `cargo run -p p4 --example parse_all -- [-I DIR]... [-D NAME[=VALUE]]... [--expect-errors
//! OUTPUTS] DIR|FILE...`
//!
//! With `--expect-errors`, a file must have errors in the lines that a `FILE-stderr` in OUTPUTS
//! names for syntax errors (p4c's format, `file(line):syntax error`), if it names any.

use p4::parse::{ParsedProgram, parse_program};
use p4::preprocess::{DiskLoader, PreprocessOptions};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Default)]
struct Args {
    options: PreprocessOptions,
    outputs: Option<PathBuf>,
    inputs: Vec<PathBuf>,
}

fn main() -> ExitCode {
    let args = arguments();
    let mut files: Vec<PathBuf> = args.inputs.iter().flat_map(|input| programs(input)).collect();
    files.sort();
    let mut failures = 0;
    for file in &files {
        let parsed = parse_program(&DiskLoader, file, &args.options);
        let complaint = match &args.outputs {
            None => unexpected_diagnostics(&parsed),
            Some(outputs) => missed_errors(&parsed, file, outputs),
        };
        if let Some(complaint) = complaint {
            failures += 1;
            print!("{complaint}");
        }
    }
    println!("{} files, {failures} not as expected", files.len());
    if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn arguments() -> Args {
    let mut args = Args::default();
    let mut rest = std::env::args().skip(1);
    while let Some(arg) = rest.next() {
        match arg.as_str() {
            "-I" => args.options.include_dirs.extend(rest.next().map(PathBuf::from)),
            "-D" => {
                let define = rest.next().unwrap_or_default();
                let (name, value) = define.split_once('=').unwrap_or((&define, "1"));
                args.options.defines.push((name.to_owned(), value.to_owned()));
            }
            "--expect-errors" => args.outputs = rest.next().map(PathBuf::from),
            input => args.inputs.push(input.into()),
        }
    }
    args
}

fn programs(input: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(input) else { return vec![input.to_owned()] };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    paths.filter(|path| path.extension().is_some_and(|ext| ext == "p4")).collect()
}

fn unexpected_diagnostics(parsed: &ParsedProgram) -> Option<String> {
    let lines = parsed.diagnostics.iter().map(|d| d.one_line(&parsed.source_map) + "\n");
    (!parsed.diagnostics.is_empty()).then(|| lines.collect())
}

/// Returns a complaint if the lines of p4c's syntax errors are not among ours. Only the first error
/// of each file counts, because later ones depend on the parser's recovery.
fn missed_errors(parsed: &ParsedProgram, file: &Path, outputs: &Path) -> Option<String> {
    let name = file.file_name()?.to_str()?;
    let stderr = std::fs::read_to_string(outputs.join(format!("{name}-stderr"))).ok()?;
    let line = stderr.lines().find(|line| line.contains("):syntax error"))?;
    let wanted: u32 = line.split_once('(')?.1.split_once(')')?.0.parse().ok()?;
    let ours: Vec<u32> = parsed
        .diagnostics
        .iter()
        .filter(|d| d.is_error())
        .filter_map(|d| parsed.source_map.location(d.primary))
        .map(|at| at.line)
        .collect();
    if ours.contains(&wanted) {
        return None;
    }
    Some(format!("{name}: wanted an error in line {wanted} ({line}), have errors in lines {ours:?}\n"))
}
