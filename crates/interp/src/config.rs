//! Configuration of the engine besides the program.

use entries::StoredEntry;
use ir::TableId;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

/// Finds the source of an entry that does not record it itself. Used by explanations only.
///
/// The owner of the tables knows the source. It is not stored in the entry, because an entry would
/// then have to be written again when its line moves.
#[derive(Clone, Default)]
pub struct EntrySources(Option<Arc<FindSource>>);

type FindSource = dyn Fn(TableId, &StoredEntry) -> Option<String> + Send + Sync;

impl EntrySources {
    /// Returns the sources that `find` knows.
    pub fn new(find: impl Fn(TableId, &StoredEntry) -> Option<String> + Send + Sync + 'static) -> EntrySources {
        EntrySources(Some(Arc::new(find)))
    }

    /// Returns the source of an entry.
    pub(crate) fn find(&self, table: TableId, entry: &StoredEntry) -> Option<String> {
        self.0.as_ref()?(table, entry)
    }
}

impl fmt::Debug for EntrySources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sources").field("known", &self.0.is_some()).finish()
    }
}

/// Configuration of an engine.
#[derive(Clone, Debug)]
pub struct Config {
    /// Seed of the random numbers. Runs with equal seeds are identical; print it
    /// ([`crate::Interp::seed`]).
    pub seed: u64,
    /// Existing ports; `None`: all. A packet sent to another port is dropped as `unknown_port`.
    pub ports: Option<BTreeSet<u32>>,
    /// Those of `ports` that connect to other tiers of the same device. Packets can be sent there,
    /// but `is_host_port` and `is_net_port` return false.
    pub tier_ports: BTreeSet<u32>,
    /// PNA: ports of hosts (vports). A packet from one of them has direction HOST_TO_NET, all
    /// others NET_TO_HOST.
    pub host_ports: BTreeSet<u32>,
    /// v1model: number of the CPU port. PNA has a fixed one, 0xfffffffd.
    pub cpu_port: Option<u32>,
    /// Origin of the program's timestamps, in nanoseconds.
    pub start_ns: u64,
    /// Maximum number of table applications and backward jumps of one packet, over all its passes
    /// and copies.
    pub max_steps: u64,
    /// Maximum number of parser states that a packet enters in one pass.
    pub max_parser_states: u64,
    /// Maximum number of copies of one packet.
    pub max_copies: u32,
    /// Sources of entries, for explanations.
    pub sources: EntrySources,
    /// Whether pools of ports note from the begin which blocks change hands, for a log
    /// ([`crate::PoolControl::take_changes`]).
    pub notes_port_blocks: bool,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            seed: 1,
            ports: None,
            tier_ports: BTreeSet::new(),
            host_ports: BTreeSet::new(),
            cpu_port: None,
            start_ns: 0,
            max_steps: 1 << 20,
            max_parser_states: 1 << 16,
            max_copies: 1024,
            sources: EntrySources::default(),
            notes_port_blocks: false,
        }
    }
}
