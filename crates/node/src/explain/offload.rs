//! [`OffloadReport`]: the part of a packet's path that a flow cache would store, and why the rest
//! is not stored.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

/// Maximum number of table entries of a program, because they are copied for the report.
pub const MAX_ENTRIES: usize = 1_000_000;

/// Report for one packet.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct OffloadReport {
    /// Machine-readable form; docs/explanation/flow-caches.md lists its keys.
    pub document: Value,
    /// Text form.
    pub text: String,
}

/// Why a report cannot be created.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum OffloadError {
    /// The binary was built without flow caches.
    #[error(
        "this terraced was built without flow caches, so none keeps anything; build it with the cargo feature `wings`"
    )]
    NoCaches,
    /// The tables are too large to be copied.
    #[error(
        "the tables have {0} entries, and at most {MAX_ENTRIES} are copied for this answer; give the program and its entries instead of --node"
    )]
    TooMuch(usize),
    /// A bug in the flow cache.
    #[error("the flow cache does not support this program, which is a bug of terrace")]
    Bug,
}
