//! Runs cpp and the preprocessor on the same inputs.

use p4::diag::Severity;
use p4::preprocess::{MemoryLoader, PreprocessCounts, PreprocessLimits, PreprocessOptions, preprocess_text};
use std::fmt;
use std::path::Path;
use std::process::Command;

/// Files that inputs include.
pub const HEADERS: &[(&str, &str)] = &[
    ("h0", "h zero A\n"),
    ("h1", "#define A one\n#ifndef B\n#define B\n#endif\n__INCLUDE_LEVEL__ __FILE__ __LINE__ F(1)\n"),
    ("h2", "#pragma once\ntwo __COUNTER__\n"),
    ("h3", "#include \"h0\"\nthree \"a\n b\" \\\n c"),
    ("inc/h4", "#if 1\nfour\n#else\nfive\n#endif\n#include \"h5\"\n"),
    ("inc/h5", "F /* h5 */ G(x,\n y)\n"),
    ("inc/n", "first\n#include_next <n>\n"),
    ("inc2/n", "second\n"),
];

/// Names that an input may define and that must be undefined for the next.
const NAMES: &[&str] = &[
    "A", "B", "C", "D", "E", "F", "G", "H", "M", "N", "V", "W", "x", "y", "z", "i", "e", "L", "u8", "bit", "LINE",
    "foo",
];

/// Output of a preprocessor.
#[derive(Debug)]
pub struct Output {
    pub text: String,
    /// Severity of each finding.
    pub findings: Vec<Severity>,
    pub messages: String,
    pub counts: PreprocessCounts,
    /// Whether cpp ended there because of a missing file. Our preprocessor continues in that case
    /// only.
    pub fatal: bool,
}

/// Amounts of output.
#[derive(Default, Debug)]
pub struct Outcome {
    pub lines: usize,
    pub errors: usize,
    pub warnings: usize,
}

impl Output {
    pub fn agrees_with(&self, other: &Output) -> bool {
        self.text == other.text && self.findings == other.findings
    }

    pub fn outcome(&self) -> Outcome {
        let errors = self.findings.iter().filter(|severity| **severity == Severity::Error).count();
        Outcome { lines: self.text.lines().count(), errors, warnings: self.findings.len() - errors }
    }
}

impl fmt::Display for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.text, self.messages)
    }
}

/// Returns a main file that includes each input and then undefines the names that it may have
/// defined.
fn main_file(inputs: &[String]) -> String {
    let undefine: String = NAMES.iter().map(|name| format!("#undef {name}\n")).collect();
    (0..inputs.len()).map(|at| format!("#include \"c{at}\"\n{undefine}")).collect()
}

pub fn ours(inputs: &[String]) -> Output {
    let loader = MemoryLoader::new().with("main", main_file(inputs));
    let loader = HEADERS.iter().fold(loader, |loader, (path, text)| loader.with(path, *text));
    let named = inputs.iter().enumerate();
    let loader = named.fold(loader, |loader, (at, text)| loader.with(format!("c{at}"), text.as_str()));
    let limits = PreprocessLimits { errors: usize::MAX, files: usize::MAX, ..PreprocessLimits::default() };
    let include_dirs = vec!["inc".into(), "inc2".into()];
    let options = PreprocessOptions { include_dirs, limits, ..PreprocessOptions::default() };
    let out = preprocess_text(&loader, Path::new("main"), &options);
    let messages = out.diagnostics.iter().map(|d| d.one_line(&out.source_map) + "\n").collect();
    let findings = out.diagnostics.iter().map(|diagnostic| diagnostic.severity).collect();
    Output { text: out.text, findings, messages, counts: out.counts, fatal: false }
}

pub fn cpp(dir: &Path, inputs: &[String]) -> Output {
    for (path, text) in HEADERS {
        let path = dir.join(path);
        std::fs::create_dir_all(path.parent().expect("it is in a folder")).expect("a folder");
        std::fs::write(path, text).expect("a file");
    }
    std::fs::write(dir.join("main"), main_file(inputs)).expect("a file");
    for (at, text) in inputs.iter().enumerate() {
        std::fs::write(dir.join(format!("c{at}")), text).expect("a file");
    }
    let mut command = Command::new("cpp");
    command.current_dir(dir).env("LC_ALL", "C");
    command.args(["-E", "-C", "-undef", "-nostdinc", "-x", "assembler-with-cpp", "-I", "inc", "-I", "inc2", "main"]);
    let out = command.output().expect("cpp runs; it comes with gcc");
    assert!(matches!(out.status.code(), Some(0 | 1)), "cpp: {}", out.status);
    let text = String::from_utf8_lossy(&out.stdout);
    // The text before the main file's first line concerns cpp's own definitions.
    let text = text.find("# 1 \"main\"\n").map_or("", |at| &text[at..]).to_owned();
    let messages = String::from_utf8_lossy(&out.stderr).into_owned();
    let findings = messages.lines().filter_map(severity).collect();
    let fatal = messages.contains(": fatal error: ");
    Output { text, findings, messages, counts: PreprocessCounts::default(), fatal }
}

fn severity(line: &str) -> Option<Severity> {
    if line.ends_with("error: the conditional began here") {
        return None;
    }
    let words: Vec<&str> = line.split(": ").collect();
    let found = words.iter().take(3).find(|word| matches!(**word, "error" | "warning" | "fatal error"))?;
    Some(if *found == "warning" { Severity::Warning } else { Severity::Error })
}
