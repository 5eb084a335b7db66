//! [`Offloaded`]: what of a packet's path a flow cache keeps, and why not the rest, by a node's tables.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

/// The most entries of a program's tables: they are copied for the answer.
pub const MAX_ENTRIES: usize = 1_000_000;

/// An answer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Offloaded {
    /// For programs; docs/flowcache.md has its keys.
    pub document: Value,
    /// For people.
    pub text: String,
}

/// Why there is no answer.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum CannotOffload {
    /// This binary has no flow caches.
    #[error(
        "this terraced was built without flow caches, so none keeps anything; build it with the cargo feature `wings`"
    )]
    NoCaches,
    /// Its tables would have to be copied.
    #[error(
        "the tables have {0} entries, and at most {MAX_ENTRIES} are copied for this answer; give the program and its entries instead of --node"
    )]
    TooMuch(usize),
    /// A bug.
    #[error("the flow cache does not take this program, which is a bug of terrace")]
    Bug,
}
