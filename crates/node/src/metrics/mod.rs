//! What a node tells Prometheus: each value that [`crate::observe`] has, under a name that stays.
//!
//! | what | where |
//! |---|---|
//! | the list of metrics: name, labels, meaning, source | `list.rs` |
//! | where values come from | `about.rs`, `packets.rs`, `tables.rs`, `workers.rs`, `service.rs`; what is looked at: `seen.rs`; what they give: `samples.rs` |
//! | samples as families of OpenMetrics | `families.rs` |
//! | a program's own counters: the greatest, and the rest together | [`top`] |
//! | who may ask, over HTTP | [`http`] |
//!
//! Deliberately absent: rates and averages (who scrapes makes them), and a value for each entry of a table (`terrace show table` has them).

mod about;
mod families;
pub mod http;
mod list;
mod packets;
mod samples;
mod seen;
mod service;
mod tables;
pub mod top;
mod workers;

pub use list::{METRICS, Metric};

use crate::Node;
use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Registry;
use seen::Seen;
use std::fmt;
use std::sync::{Arc, Weak};
use top::{Followed, Tops};

/// The metrics of a node. They outlive it: without it there are none.
#[derive(Clone)]
pub struct Metrics {
    registry: Arc<Registry>,
}

struct Collecting {
    node: Weak<Node>,
    tops: Mutex<Tops>,
}

impl fmt::Debug for Collecting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Collecting")
    }
}

impl Collector for Collecting {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Some(node) = self.node.upgrade() else { return Ok(()) };
        let seen = Seen::of(&node, &mut self.tops.lock());
        families::encode(&seen, &mut encoder)
    }
}

impl Metrics {
    /// Those of `node`, with the greatest elements of its program's counters as `followed` says.
    pub fn new(node: &Arc<Node>, followed: Vec<Followed>) -> Metrics {
        let mut registry = Registry::with_prefix("terrace");
        let tops = Mutex::new(Tops::new(followed));
        registry.register_collector(Box::new(Collecting { node: Arc::downgrade(node), tops }));
        Metrics { registry: Arc::new(registry) }
    }

    /// As text in the format OpenMetrics 1.0.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = prometheus_client::encoding::text::encode(&mut text, &self.registry);
        text
    }
}
