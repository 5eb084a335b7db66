//! STF, the "simple test framework" language of p4c's tests: entries, input packets, expected
//! packets.
//!
//! A test is parsed into a [`script::Script`]. Its names and values are resolved against a pipeline
//! ([`resolve`]) when it is run ([`run`]) on a [`device::Device`]. The commands have the meaning
//! that they have in p4c's bmv2 driver. The commands that exist only here (`check_digest`,
//! `advance_time`, ...) are described in `tests/corpus/README.md`.

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

/// Error in a test file, with its location and the fix.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{file}:{line}:{column}: {message}{}\n  help: {help}", .token.as_ref().map(|t| format!(" (at `{t}`)")).unwrap_or_default())]
pub struct StfError {
    /// Path of the test file, as it was given.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// Text at the location, if any.
    pub token: Option<String>,
    /// Description of the error.
    pub message: String,
    /// Description of the fix.
    pub help: String,
}
