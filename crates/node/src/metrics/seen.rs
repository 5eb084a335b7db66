//! [`Seen`]: a node at the moment of a scrape.

use super::samples::Counted;
use super::top::Tops;
use crate::Node;
use crate::counts::Counts;
use crate::observe::{Observation, TableNow};
use crate::status::Version;

/// A node at the moment of a scrape: what is looked at once for all metrics.
pub(super) struct Seen<'a> {
    pub node: &'a Node,
    pub now: Observation,
    /// Over all workers.
    pub sum: Counts,
    pub version: Version,
    pub tables: Vec<TableNow>,
    /// How many writes to tables each worker has not seen.
    pub behind: Vec<u64>,
    /// Elements of the program's counters.
    pub counters: Counted,
}

impl<'a> Seen<'a> {
    pub fn of(node: &'a Node, tops: &mut Tops) -> Seen<'a> {
        let now = node.observe();
        Seen {
            sum: now.sum(),
            now,
            version: node.version(),
            tables: node.tables_now(),
            behind: node.behind(),
            counters: tops.counted(node),
            node,
        }
    }
}
