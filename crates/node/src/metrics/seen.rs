//! [`Seen`]: a node at the moment of a scrape, and samples of it.

use super::top::Tops;
use crate::Node;
use crate::counts::Counts;
use crate::observe::{Observation, TableNow};
use crate::status::Version;
use io::Latency;
use packet::Counter;

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

/// Values of a sample's labels, in the order of the metric's.
pub(super) type LabelValues = Vec<String>;
/// Samples of a gauge or a counter.
pub(super) type Values = Vec<(LabelValues, f64)>;
/// Samples that count packets and bytes.
pub(super) type Counted = Vec<(LabelValues, Counter)>;
/// Samples of a histogram.
pub(super) type Times = Vec<(LabelValues, Latency)>;

/// The one sample of a metric without labels.
pub(super) fn one<T>(value: T) -> Vec<(LabelValues, T)> {
    vec![(Vec::new(), value)]
}
