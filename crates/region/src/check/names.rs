//! Names: their form, their uniqueness, and what they refer to.

use super::Index;
use crate::model::Name;
use crate::problem::{Report, did_you_mean};
use std::collections::hash_map::Entry;

/// Greatest length of a name, in bytes.
const MAX_NAME: usize = 63;

/// Names of one kind to indices; complains about malformed and repeated ones.
pub(super) fn index<'a>(report: &mut Report, kind: &str, names: impl Iterator<Item = &'a Name>) -> Index {
    let mut index = Index::new();
    let mut first_lines = Vec::new();
    for (i, name) in names.enumerate() {
        form(report, kind, name);
        first_lines.push(name.at.line);
        match index.entry(name.value.clone()) {
            Entry::Vacant(e) => {
                e.insert(i);
            }
            Entry::Occupied(e) => report.add(
                name.at,
                format!("{kind} `{}` is declared twice, first in line {}", name.value, first_lines[*e.get()]),
                "rename one of them",
            ),
        }
    }
    index
}

fn form(report: &mut Report, kind: &str, name: &Name) {
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(good) {
        report.add(
            name.at,
            format!("`{}` is not a name for a {kind}", name.value.chars().take(80).collect::<String>()),
            format!("use 1 to {MAX_NAME} letters, digits, `-`, `_` or `.`"),
        );
    }
}

/// What a name refers to; complains if there is no such thing.
pub(super) fn resolve(report: &mut Report, kind: &str, name: &Name, index: &Index) -> Option<usize> {
    if let Some(i) = index.get(&name.value) {
        return Some(*i);
    }
    let mend = match did_you_mean(name, index.keys().map(|k| &**k)) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("declare the {kind} `{}`, or name one that is declared", name.value),
    };
    report.add(name.at, format!("there is no {kind} `{}`", name.value), mend);
    None
}
