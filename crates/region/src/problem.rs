//! Problems in a region file: the position, the message, and the fix.

use crate::spanned::SourcePos;
use serde::Serialize;
use std::fmt;

/// Maximum number of problems that are stored. Further problems are only counted.
pub const MAX_PROBLEMS: usize = 100;

/// One problem in a region file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Problem {
    /// File name as the caller gave it.
    pub file: String,
    /// Line, from 1; 0 if the problem has no position.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// Description of the problem.
    pub message: String,
    /// How to fix the problem.
    pub help: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: {}", self.file, self.line, self.column, self.message)?;
        if !self.help.is_empty() {
            write!(f, "\n    help: {}", self.help)?;
        }
        Ok(())
    }
}

/// All problems of a region file. No part of the file has been applied.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Problems {
    /// Problems in the order of the file, at most [`MAX_PROBLEMS`].
    pub problems: Vec<Problem>,
    /// Number of problems beyond [`MAX_PROBLEMS`].
    pub more: usize,
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.problems.iter().enumerate() {
            if i > 0 {
                writeln!(f)?;
            }
            write!(f, "{problem}")?;
        }
        if self.more > 0 {
            write!(f, "\nand {} more", self.more)?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

/// Collects the problems of a file during its check.
#[derive(Debug)]
pub(crate) struct ProblemCollector {
    file: String,
    problems: Vec<Problem>,
    more: usize,
}

impl ProblemCollector {
    pub(crate) fn new(file: &str) -> Self {
        ProblemCollector { file: file.to_owned(), problems: Vec::new(), more: 0 }
    }

    /// Returns whether a further problem would be stored. Callers test this before they compute
    /// expensive parts of a message.
    pub(crate) fn can_store_more(&self) -> bool {
        self.problems.len() < MAX_PROBLEMS
    }

    pub(crate) fn add(&mut self, at: SourcePos, message: impl Into<String>, help: impl Into<String>) {
        if self.problems.len() == MAX_PROBLEMS {
            self.more += 1;
            return;
        }
        self.problems.push(Problem {
            file: self.file.clone(),
            line: at.line,
            column: at.column,
            message: message.into(),
            help: help.into(),
        });
    }

    pub(crate) fn finish(mut self) -> Result<(), Problems> {
        if self.problems.is_empty() {
            return Ok(());
        }
        self.problems.sort_by_key(|p| (p.line, p.column));
        Err(Problems { problems: self.problems, more: self.more })
    }
}

/// Returns the candidate closest to a misspelt name, if one is within the edit distance limit.
/// Looks at the first 10,000 candidates only.
pub(crate) fn did_you_mean<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let name = fold_case(name);
    let limit = 1 + (name.len() / 4).min(MAX_TYPOS - 1);
    let near = candidates.take(10_000).filter_map(|c| Some((edit_distance(&name, &fold_case(c), limit)?, c)));
    near.min().map(|(_, candidate)| candidate)
}

/// Largest edit distance that [`did_you_mean`] accepts, for long names.
const MAX_TYPOS: usize = 4;

/// Returns the first 64 characters of `text` in lower case.
fn fold_case(text: &str) -> Vec<char> {
    text.chars().take(64).map(|c| c.to_ascii_lowercase()).collect()
}

/// Returns the Levenshtein distance of `a` and `b` if it is at most `limit`. Computes only the
/// cells near the diagonal, because all others exceed the limit.
fn edit_distance(a: &[char], b: &[char], limit: usize) -> Option<usize> {
    if a.len().abs_diff(b.len()) > limit {
        return None;
    }
    let over = limit + 1;
    let mut row: Vec<usize> = (0..=b.len()).map(|distance| distance.min(over)).collect();
    for (i, ca) in a.iter().enumerate() {
        let (first, end) = (i.saturating_sub(limit), (i + limit + 1).min(b.len()));
        let mut diagonal = row[first];
        row[first] = if first == 0 { i + 1 } else { over };
        for j in first..end {
            let substituted = diagonal + usize::from(*ca != b[j]);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(diagonal + 1).min(row[j] + 1).min(over);
        }
    }
    Some(row[b.len()]).filter(|distance| *distance <= limit)
}

#[cfg(test)]
mod tests {
    use super::{edit_distance, fold_case};
    use proptest::prelude::*;

    /// Computes the distance by its definition, recursively: a letter is dropped from either side
    /// or from both.
    fn defined(a: &[char], b: &[char]) -> usize {
        match (a, b) {
            ([], rest) | (rest, []) => rest.len(),
            ([x, a @ ..], [y, b @ ..]) if x == y => defined(a, b),
            ([_, left @ ..], [_, right @ ..]) => 1 + defined(left, b).min(defined(a, right)).min(defined(left, right)),
        }
    }

    proptest! {
        #[test]
        fn the_distance_is_the_defined_one(a in "[ab]{0,7}", b in "[ab]{0,7}", limit in 1usize..5) {
            let (a, b) = (fold_case(&a), fold_case(&b));
            let defined = defined(&a, &b);
            prop_assert_eq!(edit_distance(&a, &b, limit), Some(defined).filter(|d| *d <= limit));
        }
    }
}
