//! [`ScrapeSnapshot`]: a node at the moment of a scrape.

use super::samples::CounterSamples;
use super::top::TopCounters;
use crate::Node;
use crate::counts::WorkerCounts;
use crate::nat::NatUse;
use crate::observe::{StatsSnapshot, TableSnapshot};
use crate::status::NodeVersion;

/// A node at the moment of a scrape, read once for all metrics.
pub(super) struct ScrapeSnapshot<'a> {
    pub node: &'a Node,
    pub now: StatsSnapshot,
    /// Sum over all workers.
    pub sum: WorkerCounts,
    pub version: NodeVersion,
    pub tables: Vec<TableSnapshot>,
    /// Number of table writes that each worker has not seen.
    pub versions_behind: Vec<u64>,
    /// Elements of the program's counters.
    pub counters: CounterSamples,
    /// The NATs of the region.
    pub nats: Vec<NatUse>,
}

impl<'a> ScrapeSnapshot<'a> {
    pub fn of(node: &'a Node, tops: &mut TopCounters) -> ScrapeSnapshot<'a> {
        let now = node.observe();
        let nats = node.nat_use(&now.stats.refused_ports);
        ScrapeSnapshot {
            sum: now.sum(),
            now,
            version: node.version(),
            tables: node.table_snapshots(),
            versions_behind: node.versions_behind(),
            counters: tops.collect_samples(node),
            nats,
            node,
        }
    }
}
