//! Writes the tables of docs/reference/conformance.md between its two markers. The rest of the file
//! is kept.

use super::report::{CategoryCounts, bar_text, by_cause};
use super::{CaseOutcome, CaseResult, Category};
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

const BEGIN: &str = "<!-- conformance: begin (written by cargo xtask conformance --markdown) -->";
const END: &str = "<!-- conformance: end -->";

/// Rewrites the file in place.
pub fn write(done: &[CaseResult]) -> Result<()> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/conformance.md");
    let old = fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
    let new = replaced(&old, &tables(done)).with_context(|| {
        format!("{} has lost its markers; put back the lines `{BEGIN}` and `{END}`", file.display())
    })?;
    fs::write(&file, new).with_context(|| format!("writing {}", file.display()))
}

fn replaced(old: &str, tables: &str) -> Option<String> {
    let begin = old.find(BEGIN)? + BEGIN.len();
    let end = begin + old[begin..].find(END)?;
    Some(format!("{}\n\n{tables}\n{}", &old[..begin], &old[end..]))
}

/// Returns the tables: the counts of each category, and its failures by cause.
fn tables(results: &[CaseResult]) -> String {
    let mut text =
        "| category | counts | programs | passed | share | bar |\n|---|---|---:|---:|---:|---:|\n".to_owned();
    for category in Category::ALL {
        let tally = CategoryCounts::of(results, category);
        let _ = writeln!(
            text,
            "| `{}` | {} | {} | {} | {:.1} % | {} |",
            category.name(),
            category.meaning(),
            tally.total,
            tally.passed,
            tally.percent(),
            bar_text(category.category_target())
        );
    }
    for category in Category::ALL {
        let causes = by_cause(results, category);
        let _ = writeln!(text, "\n### `{}`: failures and their causes\n", category.name());
        if causes.is_empty() {
            text.push_str("None.\n");
        } else {
            text.push_str("| program | cause | message |\n|---|---|---|\n");
        }
        for (cause, programs) in causes {
            for (program, detail) in programs {
                let name = program.split_once('/').map_or(program, |(_, name)| name);
                let _ = writeln!(text, "| `{name}` | {} | {} |", table_cell(cause), table_cell(detail));
            }
        }
        append_skipped(&mut text, results, category);
    }
    text
}

fn append_skipped(text: &mut String, done: &[CaseResult], category: Category) {
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for one in done.iter().filter(|one| one.category == category) {
        if let CaseOutcome::Skip { reason } = &one.outcome {
            *reasons.entry(reason).or_default() += 1;
        }
    }
    for (reason, count) in reasons {
        let _ = writeln!(text, "\nPrograms not counted: {count} ({reason}).");
    }
}

/// Escapes and shortens text for a table cell.
fn table_cell(text: &str) -> String {
    const LONGEST: usize = 200;
    let mut short: String = text.chars().take(LONGEST).collect();
    if text.chars().count() > LONGEST {
        short.push('…');
    }
    short.replace('|', "\\|").replace('\n', " ").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_between_the_markers_changes() {
        let old = format!("head\n{BEGIN}\nold\n{END}\ntail\n");
        let new = replaced(&old, "new").unwrap();
        assert_eq!(new, format!("head\n{BEGIN}\n\nnew\n{END}\ntail\n"));
        assert_eq!(replaced(&new, "new").unwrap(), new);
        assert_eq!(replaced("no markers", "new"), None);
    }
}
