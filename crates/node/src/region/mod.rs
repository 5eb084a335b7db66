//! The gateway's tables, kept in accordance with a region file.
//!
//! This module answers one question: *how does a node apply a region file?* It reads and checks the
//! file (`crates/region`), compares its entries with the current tables, and writes the difference
//! as one batch through the same device as P4Runtime's writes (`device/`). An invalid file changes
//! nothing. The tables are the only state: of earlier versions of the file, the node remembers only
//! the numbers of VPCs and other objects ([`region::IdAssignments`]), which are stored and
//! transferred in a take-over.

mod apply;
mod host_sides;
mod keeper;
mod kernel_routes;
mod path_mtus;
mod paths;
mod program;
mod uplinks;

pub use keeper::RegionError;
pub(crate) use keeper::RegionKeeper;
pub(crate) use path_mtus::RegionTunnels;
pub use program::gateway;
pub use uplinks::{OpenPort, OpenPorts};

use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;

/// Changes that applying a region file made, or would make.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegionChanges {
    /// Path of the region file.
    pub region: PathBuf,
    /// Number of inserted entries.
    pub inserted: usize,
    /// Number of entries whose action changed.
    pub modified: usize,
    /// Number of deleted entries.
    pub deleted: usize,
    /// Number of default actions and counters written.
    pub others: usize,
    /// Duration in milliseconds.
    #[serde(default)]
    pub ms: u64,
    /// Uplinks of the region that do not fit the node's ports, with line and fix.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl fmt::Display for RegionChanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RegionChanges { region, inserted, modified, deleted, ms, .. } = self;
        let region = region.display();
        write!(f, "applied {region}: {inserted} entries added, {modified} changed, {deleted} removed, in {ms} ms")?;
        self.warnings.iter().try_for_each(|warning| write!(f, "\nwarning: {warning}"))
    }
}

/// Changes that a region file would make.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegionDifference {
    /// Counts and warnings.
    pub summary: RegionChanges,
    /// The first changes, each as `+ ENTRY`, `~ ENTRY` or `- ENTRY`.
    pub lines: Vec<String>,
    /// Number of changes that are not listed.
    pub more: usize,
}

/// Status of the region that a node serves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegionStatus {
    /// Path of the region file.
    pub file: PathBuf,
    /// Name of the region.
    pub region: String,
    /// Number of VPCs.
    pub vpcs: usize,
    /// Number of VMs.
    pub vms: usize,
    /// Number of servers.
    pub servers: usize,
    /// Number of entries in all tables of the gateway.
    pub entries: usize,
    /// Number of applications since the process started.
    pub applications: u64,
    /// Uplinks of the region that do not fit the node's ports, with line and fix.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Why the last file is not in force; `None` if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}
