//! [`HotSetScheduler`]: times of hot set selections, with the counts at the last one.

use ir::TableId;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Schedule of hot set selections, with the counts at the last one.
pub struct HotSetScheduler {
    pub interval: Duration,
    pub next_ns: u64,
    /// Time of the last selection.
    pub last_ns: u64,
    /// Hits of each entry of each hot table, by the entry's sequence number.
    pub hits_before: HashMap<TableId, Arc<HashMap<u64, u64>>>,
    /// Entries added to the switch, and removed from it, since the start.
    pub added: u64,
    pub removed: u64,
    /// Selections that exceeded the switch's capacity.
    pub refused: u64,
}

impl HotSetScheduler {
    pub fn new(every: Duration) -> HotSetScheduler {
        HotSetScheduler {
            interval: every,
            next_ns: 0,
            last_ns: 0,
            hits_before: HashMap::new(),
            added: 0,
            removed: 0,
            refused: 0,
        }
    }
}
