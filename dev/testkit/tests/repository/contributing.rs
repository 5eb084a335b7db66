//! Checks that names in backquotes in CONTRIBUTING.md exist: files, and types and functions in the
//! files of the same step.

use crate::tree::{self, root};

/// Backquoted text that is neither a file nor a name in the tree: commands, keywords, examples.
const OTHER: &[&str] = &["unsafe", "_ =>", "=", "is_valid", "age_ns"];

/// Returns the numbered steps of the page with their line numbers; other paragraphs are steps, too.
fn steps(page: &str) -> Vec<(usize, String)> {
    let mut steps: Vec<(usize, String)> = Vec::new();
    for (at, line) in page.lines().enumerate() {
        match steps.last_mut() {
            Some((_, step)) if line.starts_with("   ") => {
                step.push('\n');
                step.push_str(line);
            }
            _ => steps.push((at + 1, line.to_owned())),
        }
    }
    steps
}

/// Returns the backquoted texts of a step.
fn quoted(step: &str) -> Vec<&str> {
    step.split('`').skip(1).step_by(2).collect()
}

fn is_command(quoted: &str) -> bool {
    ["make", "cargo", "BLESS=1"].iter().any(|command| quoted.split(' ').next() == Some(command))
}

/// Returns whether a source text declares a name, or lists it in a macro.
fn declares(text: &str, name: &str) -> bool {
    let keywords = ["struct ", "enum ", "trait ", "type ", "fn ", "macro_rules! ", "mod ", "const "];
    let starts = keywords.iter().map(|keyword| format!("{keyword}{name}")).chain([format!("    {name} {{")]);
    starts.into_iter().any(|start| tree::has_words(text, &start))
}

#[test]
fn recipes_name_what_exists() {
    let page = std::fs::read_to_string(root().join("CONTRIBUTING.md")).expect("CONTRIBUTING.md is there");
    // For names without a file in their step.
    let files = tree::FOLDERS.iter().flat_map(|folder| tree::files(&root().join(folder), &["rs"]));
    let all: Vec<String> = files.map(|path| tree::read(&path)).collect();
    let mut wrong = Vec::new();
    for (line, step) in steps(&page) {
        for quoted in quoted(&step) {
            if OTHER.contains(&quoted) || is_command(quoted) {
                continue;
            }
            if tree::is_path(quoted) {
                if !root().join(quoted).exists() {
                    wrong.push(format!(
                        "CONTRIBUTING.md:{line}: there is no file or folder `{quoted}`: write where it is now"
                    ));
                }
                continue;
            }
            for name in quoted.split("::") {
                if !all.iter().any(|text| declares(text, name)) {
                    wrong.push(format!(
                        "CONTRIBUTING.md:{line}: no file of the workspace declares `{name}` (of `{quoted}`): write its name of \
                         now, or list it in OTHER of {} if it is no name",
                        file!()
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn backquotes_are_sorted() {
    assert!(tree::is_path("crates/ir/src/table.rs") && tree::is_path("ARCHITECTURE.md") && !tree::is_path("KeyMatch"));
    assert!(is_command("make test") && !is_command("makes"));
    assert!(declares("pub fn pattern<'k>(", "pattern") && !declares("fn patterns()", "pattern"));
    assert_eq!(quoted("a `b` c `d::e`"), ["b", "d::e"]);
}
