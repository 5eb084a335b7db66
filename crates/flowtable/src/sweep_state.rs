//! How far the sweep has come.

use std::collections::VecDeque;

/// An entry that ends after a grace period unless a hit comes first.
pub(crate) struct Doubted {
    pub record: u32,
    /// How many times a hit has ended its doubt although its idle time was over.
    pub attempts: u8,
}

/// State of the sweep of one table.
#[derive(Default)]
pub(crate) struct SweepState {
    /// The next record of the pass.
    pub cursor: u32,
    /// First and last unit whose records the pass examines; `None` between two passes.
    pub units: Option<(u32, u32)>,
    /// The last unit of the pass before; `None` before the first pass, which examines all.
    pub done: Option<u32>,
    /// Entries in doubt, by rising stamp.
    pub doubted: VecDeque<(u64, Vec<Doubted>)>,
}

impl SweepState {
    /// Lets the next pass examine all records.
    pub fn restart(&mut self) {
        (self.units, self.done) = (None, None);
    }
}
