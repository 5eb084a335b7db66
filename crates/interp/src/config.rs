//! What the engine is told besides the program.

use entries::Entry;
use ir::TableId;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

/// Says where an entry comes from that does not say it itself: of explanations alone, packets do not
/// ask. What keeps the tables knows it, and would have to write entries again when a line moves.
#[derive(Clone, Default)]
pub struct Sources(Option<Arc<FindSource>>);

type FindSource = dyn Fn(TableId, &Entry) -> Option<String> + Send + Sync;

impl Sources {
    /// Those that `find` knows.
    pub fn new(find: impl Fn(TableId, &Entry) -> Option<String> + Send + Sync + 'static) -> Sources {
        Sources(Some(Arc::new(find)))
    }

    /// Where an entry comes from.
    pub(crate) fn find(&self, table: TableId, entry: &Entry) -> Option<String> {
        self.0.as_ref()?(table, entry)
    }
}

impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sources").field("known", &self.0.is_some()).finish()
    }
}

/// Settings of an engine.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where random numbers start; runs with one seed repeat. Print it ([`crate::Interp::seed`]).
    pub seed: u64,
    /// The ports that exist; `None`: all. A packet sent to another one is dropped as `unknown_port`.
    pub ports: Option<BTreeSet<u32>>,
    /// Those of them that lead to other parts of the same device: packets can be sent there, but a program that asks is told that there is no such port.
    pub inner_ports: BTreeSet<u32>,
    /// PNA: the ports that lead to hosts (vports). A packet from one of them has direction HOST_TO_NET, all others NET_TO_HOST.
    pub host_ports: BTreeSet<u32>,
    /// v1model: the port that stands for the CPU. PNA has one of its own, 0xfffffffd.
    pub cpu_port: Option<u32>,
    /// The time in nanoseconds that the program's timestamps count from.
    pub start: u64,
    /// Table applications and backward jumps that one packet may make, over all its passes and copies.
    pub max_steps: u64,
    /// Parser states that a packet may enter in one pass.
    pub max_parser_states: u64,
    /// Copies that one packet may be made into.
    pub max_copies: u32,
    /// Where entries come from, for explanations.
    pub sources: Sources,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            seed: 1,
            ports: None,
            inner_ports: BTreeSet::new(),
            host_ports: BTreeSet::new(),
            cpu_port: None,
            start: 0,
            max_steps: 1 << 20,
            max_parser_states: 1 << 16,
            max_copies: 1024,
            sources: Sources::default(),
        }
    }
}
