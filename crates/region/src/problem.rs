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
    let limit = 1 + name.chars().take(64).count() / 4;
    // A distance is at least the difference of the lengths.
    let plausible = |candidate: &&str| candidate.len().abs_diff(name.len()) <= 4 * limit;
    let near = candidates.take(10_000).filter(plausible).map(|c| (distance(name, c), c));
    near.filter(|(distance, _)| *distance <= limit).min().map(|(_, candidate)| candidate)
}

/// Levenshtein distance over at most 64 characters of each; upper and lower case are the same.
fn distance(a: &str, b: &str) -> usize {
    let lower = |text: &str| text.chars().take(64).map(|c| c.to_ascii_lowercase()).collect::<Vec<char>>();
    let (a, b) = (lower(a), lower(b));
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(ca != cb);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}
