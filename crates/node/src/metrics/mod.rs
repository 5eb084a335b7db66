//! Metrics for Prometheus: the values of [`crate::observe`] under stable names.
//!
//! | concern | location |
//! |---|---|
//! | the list of metrics: name, labels, meaning, source | `list.rs` |
//! | input of the sources: a snapshot of the node | `scrape.rs` |
//! | the sources | `about.rs`, `packets.rs`, `tables.rs`, `flow_tables.rs`, `nat.rs`, `workers.rs`, `service.rs` |
//! | output of the sources | `samples.rs` |
//! | encoding as families of OpenMetrics | `families.rs` |
//! | the largest elements of a program's own counters | [`top`] |
//! | access over HTTP | [`http`] |
//!
//! Deliberately absent: rates and averages, because Prometheus computes them, and values for each
//! table entry, which `terrace show table` has.

mod about;
mod families;
mod flow_tables;
pub mod http;
mod list;
mod nat;
mod packets;
mod samples;
mod scrape;
mod service;
mod tables;
pub mod top;
mod underlay;
mod workers;

pub use list::{METRICS, Metric};

use crate::Node;
use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Registry;
use scrape::ScrapeSnapshot;
use std::fmt;
use std::sync::{Arc, Weak};
use top::{CounterDisplay, TopCounters};

/// The metrics of a node. They can outlive the node, and are empty then.
#[derive(Clone)]
pub struct Metrics {
    registry: Arc<Registry>,
}

struct NodeCollector {
    node: Weak<Node>,
    tops: Mutex<TopCounters>,
}

impl fmt::Debug for NodeCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NodeCollector")
    }
}

impl Collector for NodeCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Some(node) = self.node.upgrade() else { return Ok(()) };
        let seen = ScrapeSnapshot::of(&node, &mut self.tops.lock());
        families::encode(&seen, &mut encoder)
    }
}

impl Metrics {
    /// Creates the metrics of `node`. `followed` configures the presentation of its program's
    /// counters.
    pub fn new(node: &Arc<Node>, followed: Vec<CounterDisplay>) -> Metrics {
        let mut registry = Registry::with_prefix("terrace");
        let tops = Mutex::new(TopCounters::new(followed));
        registry.register_collector(Box::new(NodeCollector { node: Arc::downgrade(node), tops }));
        Metrics { registry: Arc::new(registry) }
    }

    /// Returns the metrics as text in the format OpenMetrics 1.0.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = prometheus_client::encoding::text::encode(&mut text, &self.registry);
        text
    }
}
