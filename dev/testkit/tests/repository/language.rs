//! Do names and comments read as those of other codebases of the field?
//!
//! Eight measures over the workspace's sources, each held to the range of Cranelift, OPTE, smoltcp,
//! rust-analyzer and Hedgehog's dataplane. They are only indicators, because text that avoids the
//! listed words can still be hard to read. Tests, examples, benches and generated files are
//! excluded.

use crate::tree::{self, root};
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};

/// Longest comment line, in columns.
const MAX_COLUMNS: usize = 100;

/// Words and phrases of the tree's former private dialect, which no comment may contain.
const DIALECT: &[&str] = &["whoever", "so many", "once more", "somebody", "anybody", "mend", "mends", "mended"];

/// Source file without its tests.
struct Source {
    name: String,
    text: String,
}

impl Source {
    /// Returns the lines that are comments, trimmed at both ends.
    fn comment_lines(&self) -> impl Iterator<Item = &str> {
        self.text.lines().filter(|line| line.trim_start().starts_with("//"))
    }

    /// Returns the first two folders of the path, which name the crate.
    fn crate_name(&self) -> String {
        self.name.split('/').take(2).collect::<Vec<_>>().join("/")
    }
}

/// Returns the sources of all crates, each up to a test module at its end.
fn sources() -> Vec<Source> {
    let tests = Regex::new(r"#\[cfg\(test\)\]\s*(?:pub )?mod tests?\b").expect("a pattern");
    let skipped = Regex::new(r"/(tests?|benches|examples|target|proto)/|tests?\.rs$|generated").expect("a pattern");
    let packages = tree::packages();
    let files = packages.values().flat_map(|folder| tree::files(&folder.join("src"), &["rs"]));
    let base = root().canonicalize().expect("the repository exists");
    let mut found = Vec::new();
    for path in files {
        let path = path.canonicalize().expect("a file that was listed");
        let name = path.strip_prefix(&base).unwrap_or(&path).display().to_string();
        if !skipped.is_match(&format!("/{name}")) {
            let text = tree::read(&path);
            found.push(Source { name, text: tests.split(&text).next().unwrap_or_default().to_owned() });
        }
    }
    assert!(found.len() > 500, "only {} source files found: has the tree moved?", found.len());
    found
}

/// Returns all comments as one text, without the slashes.
fn prose(sources: &[Source]) -> String {
    let lines = sources.iter().flat_map(Source::comment_lines);
    lines.map(|line| line.trim().trim_start_matches(['/', '!']).trim()).collect::<Vec<_>>().join(" ")
}

/// Returns the type names, each with the files that define it.
fn type_names(sources: &[Source]) -> BTreeMap<String, BTreeSet<&str>> {
    let pattern = r"(?m)^\s*(?:pub(?:\([a-z: ]+\))? )?(?:struct|enum|trait|union|type) (\w+)";
    let pattern = Regex::new(pattern).expect("a pattern");
    let mut types: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for source in sources {
        for found in pattern.captures_iter(&source.text) {
            types.entry(found[1].to_owned()).or_default().insert(&source.name);
        }
    }
    types
}

/// Measured value and its bound.
struct Measure {
    name: &'static str,
    value: f64,
    min: f64,
    max: f64,
}

fn at_most(name: &'static str, value: f64, max: f64) -> Measure {
    Measure { name, value, min: f64::NEG_INFINITY, max }
}

fn at_least(name: &'static str, value: f64, min: f64) -> Measure {
    Measure { name, value, min, max: f64::INFINITY }
}

fn measure_comments(sources: &[Source]) -> Vec<Measure> {
    let prose = prose(sources);
    let words = prose.split_whitespace().count() as f64;
    let per_10_000 = |pattern: &str| {
        let pattern = Regex::new(&format!("(?i){pattern}")).expect("a pattern");
        10_000.0 * pattern.find_iter(&prose).count() as f64 / words
    };
    let what = r"\bwhat (?:is|are|was|were|has|have|had|it|they|one|does|did|comes|goes|can|may|must)\b";
    let lines: Vec<&str> = sources.iter().flat_map(Source::comment_lines).collect();
    let long = lines.iter().filter(|line| line.trim_end().chars().count() > MAX_COLUMNS).count();
    vec![
        at_most("`what is ...` as a noun, per 10,000 words", per_10_000(what), 1.5),
        at_most("`who`, `whoever`, `whose`, per 10,000 words", per_10_000(r"\b(?:who|whoever|whose|whom)\b"), 4.0),
        at_most("`so many`, per 10,000 words", per_10_000(r"\bso many\b"), 0.1),
        at_most("`nobody`, `somebody`, per 10,000 words", per_10_000(r"\b(?:nobody|somebody)\b"), 0.3),
        at_least("`because`, per 10,000 words", per_10_000(r"\bbecause\b"), 8.0),
        at_most("comment lines that are too long, %", 100.0 * long as f64 / lines.len() as f64, 1.5),
    ]
}

fn measure_names(sources: &[Source]) -> Vec<Measure> {
    let types = type_names(sources);
    let repeated = types.values().filter(|files| files.len() > 1).count();
    let functions = Regex::new(r"\bfn (\w+)").expect("a pattern");
    let all = sources.iter().flat_map(|source| functions.captures_iter(&source.text));
    let mut lengths: Vec<usize> = all.map(|found| found[1].len()).collect();
    lengths.sort_unstable();
    vec![
        at_most("type names that several files define, %", 100.0 * repeated as f64 / types.len() as f64, 12.0),
        at_least("letters of a function's name, median", lengths[lengths.len() / 2] as f64, 8.0),
    ]
}

#[test]
fn names_and_comments_are_in_the_range_of_the_field() {
    let sources = sources();
    let measures = measure_comments(&sources).into_iter().chain(measure_names(&sources));
    let mut missed = Vec::new();
    for Measure { name, value, min, max } in measures {
        println!("{value:8.2}  {name}");
        if !(min..=max).contains(&value) {
            missed.push(format!("{name}: {value:.2}, wanted {min} to {max}"));
        }
    }
    assert!(missed.is_empty(), "docs/glossary.md has the words of this tree:\n{}", missed.join("\n"));
}

#[test]
fn comments_are_free_of_the_old_dialect() {
    let pattern = Regex::new(&format!(r"(?i)\b(?:{})\b", DIALECT.join("|"))).expect("a pattern");
    let mut found = Vec::new();
    for source in sources() {
        for line in source.comment_lines().filter(|line| pattern.is_match(line)) {
            found.push(format!("{}: {}", source.name, line.trim()));
        }
    }
    assert!(found.is_empty(), "write these plainly:\n{}", found.join("\n"));
}

#[test]
fn a_public_type_name_is_in_three_crates_at_most() {
    let pattern = Regex::new(r"(?m)^\s*pub (?:struct|enum|trait|union|type) (\w+)").expect("a pattern");
    let mut crates: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for source in sources() {
        for found in pattern.captures_iter(&source.text) {
            crates.entry(found[1].to_owned()).or_default().insert(source.crate_name());
        }
    }
    assert!(crates.len() > 300, "only {} type names found", crates.len());
    for (name, crates) in crates {
        assert!(crates.len() <= 3, "`{name}` is a public type of {crates:?}: say what each of them is");
    }
}
