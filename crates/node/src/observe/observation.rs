//! What is looked at: [`Observation`], and where a node's service keeps its part of it.

use super::requests::{Answered, RequestStats};
use super::tallied::Tallied;
use crate::counts::Counts;
use p4runtime::server::{Counters, Held, RequestKind, Watch};
use packet::Counter;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The parts of a node's service that it shows, or hands on; made with the node, given to the server.
#[derive(Clone, Debug, Default)]
pub struct Service {
    /// Who is there.
    pub watch: Arc<Watch>,
    /// What limits cost.
    pub counters: Arc<Counters>,
    /// What was asked for.
    pub requests: Arc<RequestStats>,
    /// What the server itself holds, and a process that takes over goes on with.
    pub held: Held,
}

/// Everything that a node counts, at one moment.
#[derive(Clone, Debug, Default)]
pub struct Observation {
    /// What each worker did.
    pub workers: Vec<Counts>,
    /// What was done with packets that no worker was given, over all programs: by the kernel. Its ports count them, too.
    pub beside: Counts,
    /// What tables, actions and stages did.
    pub tallied: Tallied,
    /// Requests by kind.
    pub requests: BTreeMap<RequestKind, Answered>,
}

impl Observation {
    /// All workers together, and what was done beside them.
    pub fn sum(&self) -> Counts {
        self.workers.iter().chain([&self.beside]).sum()
    }

    /// What workers were given.
    pub(super) fn received_by_workers(&self) -> Counter {
        self.workers.iter().sum::<Counts>().received
    }
}

/// A table of the program that runs, at one moment.
#[derive(Clone, Debug, Default)]
pub struct TableNow {
    /// Its name.
    pub name: String,
    /// Entries.
    pub entries: u64,
    /// The most that there were since the program began.
    pub high_water: u64,
    /// The most that there were since [`crate::Node::clear`].
    pub high_water_since_cleared: u64,
    /// As many as there may be.
    pub size: Option<u64>,
    /// Bytes of memory.
    pub memory_bytes: u64,
}
