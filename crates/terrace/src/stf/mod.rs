//! STF, the "simple test framework" language of p4c's tests: entries, packets in, packets expected.
//!
//! A test is parsed into a [`script::Script`], whose names and values are resolved against a pipeline ([`resolve`]) when it is
//! run ([`run`]) on a [`device::Device`]. The commands and their meaning are those of p4c's bmv2 driver; the
//! ones that only exist here (`check_digest`, `advance_time`, ...) are described in `tests/corpus/README.md`.

pub mod compare;
pub mod cursor;
pub mod device;
pub mod interpreter;
pub mod parse;
pub mod replication;
pub mod report;
pub mod resolve;
pub mod run;
mod run_objects;
mod run_own;
pub mod script;
pub mod value;

#[cfg(test)]
mod parse_tests;
#[cfg(test)]
mod run_tests;

use thiserror::Error;

/// What is wrong with a test file, where, and how to mend it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{file}:{line}:{column}: {message}{}\n  help: {help}", .token.as_ref().map(|t| format!(" (at `{t}`)")).unwrap_or_default())]
pub struct StfError {
    /// The test file, as it was named.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// The text at that place, if there is some.
    pub token: Option<String>,
    /// What is wrong.
    pub message: String,
    /// The mend.
    pub help: String,
}
