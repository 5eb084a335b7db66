//! The gateway's tables, kept as a region file says.
//!
//! This module answers one question: *what does a node do with a region file?* It reads and checks the
//! file (`crates/region`), compares what it asks for with the tables as they are, and writes the
//! difference as one batch through the same device as P4Runtime's writes (`device/`). A file with a
//! mistake changes nothing. The tables are the truth: nothing is remembered of earlier versions of the
//! file but the numbers that VPCs and the like have (`Numbers`), which go to the store and to the
//! process that takes over.

mod apply;
mod keeper;
mod program;
mod uplinks;

pub use keeper::RegionError;
pub(crate) use keeper::RegionKeeper;
pub use program::gateway;
pub use uplinks::{OpenPort, OpenPorts};

use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;

/// What an application of a region file changed, or would change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Applied {
    /// The region file.
    pub region: PathBuf,
    /// Entries added.
    pub inserted: usize,
    /// Entries of which the action is another one now.
    pub modified: usize,
    /// Entries removed.
    pub deleted: usize,
    /// Default actions and counters written.
    pub others: usize,
    /// How long it took, in milliseconds.
    #[serde(default)]
    pub ms: u64,
    /// Uplinks of the region that do not fit the node's ports, with line and fix.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl fmt::Display for Applied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Applied { region, inserted, modified, deleted, ms, .. } = self;
        let region = region.display();
        write!(f, "applied {region}: {inserted} entries added, {modified} changed, {deleted} removed, in {ms} ms")?;
        self.warnings.iter().try_for_each(|warning| write!(f, "\nwarning: {warning}"))
    }
}

/// What a region file would change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// The counts, and the warnings that there would be.
    pub summary: Applied,
    /// The first changes, each as `+ ENTRY`, `~ ENTRY` or `- ENTRY`.
    pub lines: Vec<String>,
    /// How many more there are.
    pub more: usize,
}

/// The region that a node serves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegionStatus {
    /// The region file.
    pub file: PathBuf,
    /// The region's name, as the file has it.
    pub region: String,
    /// VPCs.
    pub vpcs: usize,
    /// Machines.
    pub vms: usize,
    /// Servers.
    pub servers: usize,
    /// Entries in all tables of the gateway.
    pub entries: usize,
    /// How many applications there were since the process began.
    pub applications: u64,
    /// Uplinks of the region that do not fit the node's ports, with line and fix.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Why the file as it was read last is not in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}
