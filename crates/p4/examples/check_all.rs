//! Checks P4 programs. Prints the accepted ones, and the errors of the others.
//!
//! `check_all [-I DIR]... [--expect DIR] FILES...`: a file `@list` holds one path a line. With
//! `--expect`, `DIR` holds a `NAME.p4-stderr` for each program, and an error counts only in a line
//! that this file names.

use p4::diag::Diagnostic;
use p4::parse::parse_program;
use p4::preprocess::{DiskLoader, PreprocessOptions};
use p4::span::SourceMap;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

struct Outcome {
    errors: Vec<(String, u32, String)>,
}

fn check(path: &Path, options: &PreprocessOptions) -> Outcome {
    let parsed = parse_program(&DiskLoader, path, options);
    let map = parsed.source_map;
    let mut diagnostics = parsed.diagnostics;
    let before = diagnostics.iter().any(Diagnostic::is_error);
    // The remaining tree of a program with syntax errors is checked too, to find panics.
    let (typed, more) = p4::check::check(&parsed.program, &map);
    p4::hir::dump(&typed);
    if !before {
        diagnostics.extend(more);
    }
    if !diagnostics.iter().any(Diagnostic::is_error) {
        for wrong in p4::hir::verify(&typed) {
            println!("BUG {}: {wrong}", path.display());
        }
    }
    let errors = diagnostics.iter().filter(|d| d.is_error()).map(|d| located(&map, d)).collect();
    Outcome { errors }
}

fn located(map: &SourceMap, d: &Diagnostic) -> (String, u32, String) {
    let (file, line) = map.location(d.primary).map_or((String::new(), 0), |l| (l.file.to_string(), l.line));
    (file, line, format!("[{}] {}", d.code, d.message))
}

/// Returns the lines that p4c's errors name: `file.p4(12): ... error` and the locations after it,
/// up to the next warning.
fn expected_lines(path: &Path) -> BTreeSet<u32> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let mut lines = BTreeSet::new();
    let mut error = false;
    for line in text.lines() {
        if line.contains("error:") || line.contains("warning:") {
            error = line.contains("error:");
        }
        let Some(at) = line.find(".p4(").filter(|_| error) else { continue };
        let digits: String = line[at + 4..].chars().take_while(char::is_ascii_digit).collect();
        lines.extend(digits.parse::<u32>().ok());
    }
    lines
}

/// Checks the files of the arguments and prints a line for each: `ok`, `refused`, `elsewhere` (an
/// error on a line that p4c does not name) or `PANIC`. The last line has the counts.
fn main() {
    let (mut options, mut files, mut expect_dir) = (PreprocessOptions::default(), Vec::new(), None::<PathBuf>);
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "-I" => options.include_dirs.extend(args.next().map(PathBuf::from)),
            "--expect" => expect_dir = args.next().map(PathBuf::from),
            _ => match arg.strip_prefix('@') {
                Some(list) => {
                    let text = std::fs::read_to_string(list).unwrap_or_default();
                    files.extend(text.lines().map(PathBuf::from));
                }
                None => files.push(PathBuf::from(arg)),
            },
        }
    }
    let (mut accepted, mut refused, mut misplaced, mut crashed) = (0, 0, 0, 0);
    for file in &files {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Ok(outcome) = std::panic::catch_unwind(|| check(file, &options)) else {
            println!("PANIC {name}");
            crashed += 1;
            continue;
        };
        let Some(first) = outcome.errors.first() else {
            println!("ok {name}");
            accepted += 1;
            continue;
        };
        let wanted_lines = expect_dir.as_ref().map(|dir| expected_lines(&dir.join(format!("{name}-stderr"))));
        let is_expected_line =
            wanted_lines.as_ref().is_none_or(|l| outcome.errors.iter().any(|e| l.contains(&e.1)) || l.is_empty());
        let verdict = if is_expected_line { "refused" } else { "elsewhere" };
        refused += usize::from(is_expected_line);
        misplaced += usize::from(!is_expected_line);
        println!("{verdict} {name} {}:{} {} (+{})", first.0, first.1, first.2, outcome.errors.len() - 1);
    }
    println!("{accepted} accepted, {refused} refused, {misplaced} refused elsewhere, {crashed} crashed");
}
