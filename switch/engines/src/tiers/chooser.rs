//! [`Chooser`]: when hot entries are chosen, and what was counted then.

use ir::TableId;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// When entries are chosen, and what was counted then.
pub struct Chooser {
    pub every: Duration,
    pub next: u64,
    /// When it was done last.
    pub last: u64,
    /// Hits of each entry of each hot table, by the number that an entry has of its own.
    pub before: HashMap<TableId, Arc<HashMap<u64, u64>>>,
    /// Entries that came to the switch, and went from it, so far.
    pub came: u64,
    pub went: u64,
    /// Choices that the switch had no room for.
    pub refused: u64,
}

impl Chooser {
    pub fn new(every: Duration) -> Chooser {
        Chooser { every, next: 0, last: 0, before: HashMap::new(), came: 0, went: 0, refused: 0 }
    }
}
