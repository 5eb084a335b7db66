//! Assigns programs to categories.
//!
//! A program's architecture is the one that it includes, directly or by an included file of the
//! checkout. Files of p4c's own `p4include` are never read, because Terrace's are used instead.

use super::Category;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A program with its category.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConformanceCase {
    /// Category of the program.
    pub category: Category,
    /// Path of the program, relative to `testdata`.
    pub program: String,
}

/// Architecture of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// v1model.p4.
    V1Model,
    /// pna.p4.
    Pna,
    /// Only core.p4.
    CoreOnly,
    /// Another architecture, or none: not counted.
    Other,
}

/// Returns all cases of a checkout, by category and name.
pub fn select_cases(testdata: &Path) -> io::Result<Vec<ConformanceCase>> {
    let mut cases = Vec::new();
    let mut add = |category, program: &str| cases.push(ConformanceCase { category, program: program.to_owned() });
    for program in programs(testdata, "p4_16_samples", true)? {
        let path = testdata.join(&program);
        let architecture = architecture(&path);
        if architecture == Architecture::V1Model && path.with_extension("stf").is_file() {
            add(Category::Stf, &program);
        }
        // Files in subdirectories can be parts of programs.
        if Path::new(&program).components().count() > 2 && !instantiates_main(&path) {
            continue;
        }
        if architecture != Architecture::Other {
            add(Category::Accept, &program);
        }
        if architecture == Architecture::V1Model && expected_p4info(testdata, &program).is_file() {
            add(Category::P4info, &program);
        }
    }
    for program in programs(testdata, "p4_16_errors", false)? {
        if architecture(&testdata.join(&program)) != Architecture::Other {
            add(Category::Errors, &program);
        }
    }
    cases.sort_by(|a, b| (a.category, &a.program).cmp(&(b.category, &b.program)));
    Ok(cases)
}

/// Returns the path of p4c's P4Info for a program.
pub fn expected_p4info(testdata: &Path, program: &str) -> PathBuf {
    let name = Path::new(program).file_name().unwrap_or_default().to_string_lossy().into_owned();
    testdata.join("p4_16_samples_outputs").join(name + ".p4info.txtpb")
}

/// Returns the path of p4c's error output for an invalid program.
pub fn expected_stderr(testdata: &Path, program: &str) -> PathBuf {
    let name = Path::new(program).file_name().unwrap_or_default().to_string_lossy().into_owned();
    testdata.join("p4_16_errors_outputs").join(name + "-stderr")
}

fn programs(testdata: &Path, folder: &str, deep: bool) -> io::Result<Vec<String>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(testdata.join(folder))? {
        let entry = entry?;
        let name = format!("{folder}/{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            if deep {
                found.extend(programs(testdata, &name, false)?);
            }
        } else if name.ends_with(".p4") {
            found.push(name);
        }
    }
    Ok(found)
}

/// Returns whether the file itself ends in `... main;`.
fn instantiates_main(path: &Path) -> bool {
    fs::read(path)
        .is_ok_and(|bytes| String::from_utf8_lossy(&bytes).lines().any(|line| line.trim_end().ends_with(" main;")))
}

/// Returns the architecture that a program includes.
pub fn architecture(path: &Path) -> Architecture {
    let mut outside = BTreeSet::new();
    outside_includes(path, &mut BTreeSet::new(), &mut outside);
    let only = |names: &[&str]| outside.iter().all(|name| names.contains(&name.as_str()));
    let has = |name: &str| outside.contains(name);
    if has("v1model.p4") && only(&["core.p4", "v1model.p4"]) {
        Architecture::V1Model
    } else if has("pna.p4") && only(&["core.p4", "pna.p4"]) {
        Architecture::Pna
    } else if has("core.p4") && only(&["core.p4"]) {
        Architecture::CoreOnly
    } else {
        Architecture::Other
    }
}

/// Collects the includes from outside of the checkout, of the file and of the checkout's files that
/// it includes.
fn outside_includes(path: &Path, seen: &mut BTreeSet<PathBuf>, outside: &mut BTreeSet<String>) {
    if !seen.insert(path.to_owned()) {
        return;
    }
    let Ok(bytes) = fs::read(path) else { return };
    for line in String::from_utf8_lossy(&bytes).lines() {
        let Some(name) = included(line) else { continue };
        let local = path.parent().unwrap_or(Path::new("")).join(name);
        if local.is_file() {
            outside_includes(&local, seen, outside);
        } else {
            outside.insert(name.to_owned());
        }
    }
}

/// Returns the name in an `#include` line.
fn included(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix('#')?.trim_start().strip_prefix("include")?.trim_start();
    let end = match rest.chars().next()? {
        '<' => '>',
        '"' => '"',
        _ => return None,
    };
    rest[1..].split(end).next()
}

#[cfg(test)]
mod tests {
    use super::included;

    #[test]
    fn include_lines() {
        assert_eq!(included("#include <core.p4>"), Some("core.p4"));
        assert_eq!(included("  # include \"a/b.p4\" // c"), Some("a/b.p4"));
        assert_eq!(included("#define X"), None);
        assert_eq!(included("// #include <core.p4>"), None);
    }
}
