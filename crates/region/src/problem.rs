//! What is wrong with a region file: where, what, and how to mend it.

use crate::position::Position;
use serde::Serialize;
use std::fmt;

/// How many problems are kept; the rest is counted only.
pub const MAX_PROBLEMS: usize = 100;

/// One thing that is wrong.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Problem {
    /// File as it was named.
    pub file: String,
    /// Line, from 1; 0 if the problem has no place.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub mend: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: {}", self.file, self.line, self.column, self.message)?;
        if !self.mend.is_empty() {
            write!(f, "\n    mend: {}", self.mend)?;
        }
        Ok(())
    }
}

/// All that is wrong with a region file. Nothing of it has been applied.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Problems {
    /// In the order of the file, at most [`MAX_PROBLEMS`].
    pub problems: Vec<Problem>,
    /// How many more there are.
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

/// Collects problems while a file is checked.
#[derive(Debug)]
pub(crate) struct Report {
    file: String,
    problems: Vec<Problem>,
    more: usize,
}

impl Report {
    pub(crate) fn new(file: &str) -> Self {
        Report { file: file.to_owned(), problems: Vec::new(), more: 0 }
    }

    /// Whether one more problem would be kept. What a message takes long to find is worth finding only then.
    pub(crate) fn has_room(&self) -> bool {
        self.problems.len() < MAX_PROBLEMS
    }

    pub(crate) fn add(&mut self, at: Position, message: impl Into<String>, mend: impl Into<String>) {
        if self.problems.len() == MAX_PROBLEMS {
            self.more += 1;
            return;
        }
        self.problems.push(Problem {
            file: self.file.clone(),
            line: at.line,
            column: at.column,
            message: message.into(),
            mend: mend.into(),
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

/// The candidate closest to a misspelt name, if one is close enough to be meant. Of more than 10,000 candidates, some are not
/// looked at.
pub(crate) fn did_you_mean<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let name = folded(name);
    let limit = 1 + (name.len() / 4).min(MAX_TYPOS - 1);
    let near = candidates.take(10_000).filter_map(|c| Some((distance(&name, &folded(c), limit)?, c)));
    near.min().map(|(_, candidate)| candidate)
}

/// As many letters may be wrong in a long name.
const MAX_TYPOS: usize = 4;

/// At most 64 characters; upper and lower case are the same.
fn folded(text: &str) -> Vec<char> {
    text.chars().take(64).map(|c| c.to_ascii_lowercase()).collect()
}

/// Levenshtein distance, if it is within the limit. Only the cells are computed that can be within it: those near the diagonal.
fn distance(a: &[char], b: &[char], limit: usize) -> Option<usize> {
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
    use super::{distance, folded};
    use proptest::prelude::*;

    /// By its definition: what remains when one letter is dropped from either side, or from both.
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
            let (a, b) = (folded(&a), folded(&b));
            let defined = defined(&a, &b);
            prop_assert_eq!(distance(&a, &b, limit), Some(defined).filter(|d| *d <= limit));
        }
    }
}
