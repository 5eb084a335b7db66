//! [`StatsSnapshot`], and the handles by which the node's server contributes to it.

use super::named_stats::NamedStats;
use super::requests::{RequestCounts, RequestStats};
use crate::counts::WorkerCounts;
use p4runtime::server::{Counters, RequestKind, ServerMonitor, ServerStateHandle};
use packet::Counter;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Handles that the node shares with its server: for status, and for a take-over.
#[derive(Clone, Debug, Default)]
pub struct ServiceHandles {
    /// Connected clients.
    pub watch: Arc<ServerMonitor>,
    /// Counters of connections and messages lost to limits.
    pub counters: Arc<Counters>,
    /// Statistics of requests.
    pub requests: Arc<RequestStats>,
    /// State of the server that a take-over transfers.
    pub held: ServerStateHandle,
}

/// All statistics of a node at one moment.
#[derive(Clone, Debug, Default)]
pub struct StatsSnapshot {
    /// Counts of each worker.
    pub workers: Vec<WorkerCounts>,
    /// Counts of packets that bypassed the workers because the kernel handled them, over all
    /// programs. Port counters include these packets.
    pub bypass: WorkerCounts,
    /// Statistics of tables, actions and stages.
    pub stats: NamedStats,
    /// Requests by kind.
    pub requests: BTreeMap<RequestKind, RequestCounts>,
}

impl StatsSnapshot {
    /// Returns the sum over all workers and the packets that bypassed them.
    pub fn sum(&self) -> WorkerCounts {
        self.workers.iter().chain([&self.bypass]).sum()
    }

    /// Returns the packets that workers received.
    pub(super) fn received_by_workers(&self) -> Counter {
        self.workers.iter().sum::<WorkerCounts>().received
    }
}

/// A table of the running program at one moment.
#[derive(Clone, Debug, Default)]
pub struct TableSnapshot {
    /// Name of the table.
    pub name: String,
    /// Number of entries.
    pub entries: u64,
    /// High-water mark of entries since the program started.
    pub high_water: u64,
    /// High-water mark of entries since [`crate::Node::reset_counters`].
    pub high_water_since_cleared: u64,
    /// Maximum number of entries: the declared one, or that of native code for a table to which
    /// packets add entries.
    pub size: Option<u64>,
    /// Whether the program declares no size, so that `size` is native code's default.
    pub has_default_size: bool,
    /// Memory in bytes.
    pub memory_bytes: u64,
}
